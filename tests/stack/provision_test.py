"""Secrets and settings of the containers, as the init container writes them."""

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

from tutti.chassis.config.datadir import NotUsable, tokens_at
from tutti.chassis.config.settings import installed_services, load
from tutti.chassis.identity.auth import HELD, Role
from tutti.chassis.identity.certificates import hosts_of, read_certificates, read_pair

ROOT = Path(__file__).resolve().parents[2]
USERS = dict.fromkeys(
    [*installed_services(), "agent-a", "door", "operator", "roles", "topics", "archive", "reader", "s3", "postgres"],
    os.getuid(),
)


@pytest.fixture
def provision(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "deploy" / "docker"))
    import provision

    if os.getuid() != os.getgid():
        pytest.skip("the init container is root; here user and group have different ids")
    return provision


def test_each_container_reads_its_own_folder_alone(provision: ModuleType, tmp_path: Path) -> None:
    provision.provide(tmp_path, USERS)
    for folder in tmp_path.iterdir():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert {folder.name for folder in tmp_path.iterdir()} == {*USERS, "made"}


def test_settings_are_those_that_the_services_read(provision: ModuleType, tmp_path: Path) -> None:
    provision.provide(tmp_path, USERS)
    passwords = json.loads((tmp_path / "roles" / "roles.json").read_text())
    users = json.loads((tmp_path / "topics" / "users.json").read_text())
    assert not {*users.values()} & {*passwords.values()}
    for service in installed_services():
        values = load(tmp_path / service / "tutti.toml", environment={}).values
        assert passwords[service] in values.database.url
        assert all(other not in values.database.url for name, other in passwords.items() if name != service)
        assert f"kafka://{service}:{users[service]}@" in values.log.url
        assert set(values.services) == {*installed_services()} - {service}
    accounts = json.loads((tmp_path / "s3" / "users.json").read_text())["accessAccounts"]
    keys = {user: f"s3://{user}:{account['secret']}@s3:7070/" for user, account in accounts.items()}
    assert {account["role"] for account in accounts.values()} == {"user"}
    for name in (*installed_services(), "agent-a"):
        url = load(tmp_path / name / "tutti.toml", environment={}).values.blobs.url
        assert [each for each, key in keys.items() if url.startswith(key)] == [name]
    door = load(tmp_path / "door" / "tutti.toml", environment={}).values
    assert set(door.services) == {*installed_services()}
    assert not door.database.url
    assert not door.blobs.url


def test_an_agent_gets_no_token_but_that_of_its_node(provision: ModuleType, tmp_path: Path) -> None:
    provision.provide(tmp_path, USERS)
    every = tokens_at(tmp_path / "operator" / "tokens")
    file = tmp_path / "agent-a" / "tokens"
    own = tokens_at(file, [Role.AGENT]).of(Role.AGENT)
    assert every.node_of(own) == "a"
    assert every.role_of(own) is None
    with pytest.raises(NotUsable, match="no token for operator"):
        tokens_at(file)
    assert not (tmp_path / "door" / "tokens").exists()
    secret = load(tmp_path / "door" / "tutti.toml", environment={}).values.rpc.door_secret
    assert secret == every.door_secret
    told = [path.parent.name for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_text()]
    assert told == ["door"]


def test_a_service_gets_no_token_but_its_own(provision: ModuleType, tmp_path: Path) -> None:
    provision.provide(tmp_path, USERS)
    every = tokens_at(tmp_path / "operator" / "tokens")
    for name in installed_services():
        found = "".join(file.read_text() for file in (tmp_path / name).iterdir())
        assert [role for role in HELD if every.of(role) in found] == [Role.SERVICE]
        known = tokens_at(tmp_path / name / "tokens")
        assert known.role_of(every.of(Role.OPERATOR)) is Role.OPERATOR
        assert known.node_of(every.for_node("a")) == "a"


def test_rotated_secrets_are_all_others_but_those_of_the_servers_administrators(
    provision: ModuleType, tmp_path: Path
) -> None:
    def made() -> dict[str, str]:
        found: dict[str, str] = json.loads((tmp_path / "made" / "made.json").read_text())
        return found

    provision.provide(tmp_path, USERS)
    old, token = made(), tokens_at(tmp_path / "operator" / "tokens").of(Role.OPERATOR)
    assert provision.rotate(tmp_path) == len(old) - len(provision.LASTING)
    provision.provide(tmp_path, USERS)
    assert {name for name, secret in made().items() if old[name] == secret} == {*provision.LASTING}
    assert tokens_at(tmp_path / "ingest" / "tokens").role_of(token) is None


def test_each_agent_has_a_key_of_its_own_that_a_later_call_keeps(provision: ModuleType, tmp_path: Path) -> None:
    def keys() -> dict[str, str]:
        every = json.loads((tmp_path / "s3" / "users.json").read_text())["accessAccounts"]
        return {user: account["secret"] for user, account in every.items() if user.startswith("agent-")}

    provision.provide(tmp_path, USERS)
    first = keys()
    provision.provide(tmp_path, {name: os.getuid() for name in ("agent-gpu-7", "s3", "roles")})
    assert {*keys()} == {"agent-a", "agent-gpu-7"}
    assert keys()["agent-a"] == first["agent-a"] != keys()["agent-gpu-7"]
    assert json.loads((tmp_path / "roles" / "nodes.json").read_text()) == ["a", "gpu-7"]
    assert keys()["agent-gpu-7"] in (tmp_path / "agent-gpu-7" / "tutti.toml").read_text()
    provision.provide(tmp_path, USERS)
    assert {*keys()} == {"agent-a", "agent-gpu-7"}


def test_secrets_are_random_and_kept(provision: ModuleType, tmp_path: Path) -> None:
    def all_of(volume: Path) -> dict[str, str]:
        return {str(file.relative_to(volume)): file.read_text() for file in volume.rglob("*") if file.is_file()}

    provision.provide(tmp_path / "a", USERS)
    first = all_of(tmp_path / "a")
    provision.provide(tmp_path / "a", USERS)
    assert all_of(tmp_path / "a") == first
    provision.provide(tmp_path / "b", USERS)
    assert all_of(tmp_path / "b")["postgres/password"] != first["postgres/password"]


def test_the_reader_is_told_its_urls_by_the_ports_of_this_machine(provision: ModuleType, tmp_path: Path) -> None:
    provision.provide(tmp_path, USERS)
    lines = provision.reader(tmp_path, "1", "2", "3").splitlines()
    told = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in lines)
    urls = {name: urlsplit(url) for name, url in told.items()}
    assert [(name, url.username, url.port) for name, url in urls.items()] == [
        ("TUTTI_SQL", "reader", 2), ("TUTTI_EVENTS", "reader", 1), ("TUTTI_BLOBS", "reader", 3),
    ]  # fmt: skip
    server = json.loads((tmp_path / "s3" / "users.json").read_text())["accessAccounts"]
    assert urls["TUTTI_BLOBS"].password == server["reader"]["secret"]
    assert urls["TUTTI_SQL"].password == json.loads((tmp_path / "roles" / "roles.json").read_text())["reader"]
    assert urls["TUTTI_EVENTS"].password == json.loads((tmp_path / "topics" / "users.json").read_text())["reader"]


def test_certificates_are_made_where_people_name_the_door_and_kept_while_they_last(
    provision: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provision.provide(tmp_path, USERS)
    assert not load(tmp_path / "door" / "tutti.toml", environment={}).values.tls.ca
    monkeypatch.setenv("TLS_HOSTS", "localhost,127.0.0.1")
    provision.provide(tmp_path, USERS)
    for name in ("dedup", "agent-a", "door"):
        folder, tls = tmp_path / name, load(tmp_path / name / "tutti.toml", environment={}).values.tls
        assert tls.ca == f"/run/tutti/{name}/ca.pem"
        assert tls.clients == ("token" if name == "door" else "certificate")
        read_pair(folder / "certificate.pem", folder / "key.pem", datetime.now(UTC))
        leaf = read_certificates(folder / "certificate.pem")[0]
        assert hosts_of(leaf) == ([name, "localhost", "127.0.0.1"] if name == "door" else [name])
        leaf.verify_directly_issued_by(read_certificates(folder / "ca.pem")[0])
    assert (tmp_path / "operator" / "ca.pem").read_bytes() == (tmp_path / "made" / "ca.pem").read_bytes()
    assert sorted(file.parent.name for file in tmp_path.rglob("ca.key")) == ["made"]
    first = (tmp_path / "dedup" / "certificate.pem").read_bytes()
    provision.provide(tmp_path, USERS)
    assert (tmp_path / "dedup" / "certificate.pem").read_bytes() == first
    monkeypatch.setattr(provision, "RENEWAL_DAYS", 398)
    provision.provide(tmp_path, USERS)
    assert (tmp_path / "dedup" / "certificate.pem").read_bytes() != first
    assert stat.S_IMODE((tmp_path / "dedup" / "key.pem").stat().st_mode) == 0o600


def test_a_name_that_is_no_container_is_refused(provision: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nobody: expected a service"):
        provision.provide(tmp_path, {"nobody": os.getuid()})


MOUNTS = r"""
598 567 0:52 / / ro,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker
612 598 254:0 /var/lib/docker/volumes/tutti_secrets/_data /run/tutti rw,relatime - ext4 /dev/root rw
613 598 254:0 {file} /project ro,relatime - ext4 /dev/root rw
"""


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/home/a/tutti/docker-compose.yml", "/home/a/tutti/docker-compose.yml"),
        (r"/home/a/my\040clones/docker-compose.yml", "/home/a/my clones/docker-compose.yml"),
        ("/home/a/tutti/docker-compose.yml//deleted", "/home/a/tutti/docker-compose.yml"),
    ],
)
def test_a_container_sees_which_folder_it_was_started_from(provision: ModuleType, file: str, path: str) -> None:
    assert provision.source_of(MOUNTS.format(file=file).strip(), Path("/project")) == path
    assert provision.source_of(MOUNTS.format(file=file).strip(), Path("/elsewhere")) is None


def test_volumes_are_refused_to_another_folder_until_it_is_said_that_the_first_moved(
    provision: ModuleType, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    provision.claim(volume, None)  # an older compose file
    provision.claim(volume, "/first")
    provision.claim(volume, "/first")
    with pytest.raises(provision.ForeignProject, match=r"/first.*/second"):
        provision.claim(volume, "/second")
    provision.claim(volume, "/second", moved=True)
    provision.claim(volume, "/second")
    with pytest.raises(provision.ForeignProject):
        provision.claim(volume, "/first")
