"""Users of S3: what a key may do, and what the server refuses it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobExists, BlobMissing, BlobsRefused
from tutti.backbone.connect import open_blobs
from tutti.backbone.owned import agent_rights, service_rights
from tutti.backbone.s3.users import ACCOUNTS, SMALL, accounts, declared, ensure_bucket, policy

DECLARED = (Path(__file__).parents[2] / "deploy" / "docker" / "blobs.json").read_text()
SECRETS = {name: f"of-{name}" for name in ("committer", "dedup", "ingest", "agent-a", "agent-b", "reader")}
READS = ["ingest/kind/", "trainer/shards/", "trainer/reports/"]
RIGHTS = {
    "committer": service_rights("committer", reads=["trainer"], deletes=["trainer/shards/"]),
    "dedup": service_rights("dedup", reads=["ingest"]),
    "ingest": service_rights("ingest"),
    "agent-a": agent_rights("trainer", READS, "a"),
    "agent-b": agent_rights("trainer", READS, "b"),
}


@pytest.fixture(scope="module")
def with_users(server_of_module: Callable[[str], Any]) -> str:
    """The URL of a server that knows the users, before a bucket has a policy."""
    server = server_of_module("s3")
    (server.folder / "s3" / "iam" / ACCOUNTS).write_text(accounts(SECRETS))
    return str(server.up())


@pytest.fixture
def url(with_users: str, unique: str) -> str:
    """The URL of a bucket of this test's own, for the administrator."""
    return urlsplit(with_users)._replace(path=f"/{unique}").geturl()


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[str], Blobs]]:
    """The store as each user sees it."""
    for _ in range(2):
        ensure_bucket(url, RIGHTS, ["reader"])
    parts, every = urlsplit(url), list[Blobs]()

    def of(user: str) -> Blobs:
        netloc = f"{user}:{SECRETS.get(user, 'guessed')}@{parts.hostname}:{parts.port}"
        every.append(open_blobs(parts._replace(netloc=netloc).geturl()))
        return every[-1]

    yield of
    for each in every:
        each.close()


def test_a_key_writes_its_own_prefix_and_reads_what_it_declares(opened: Callable[[str], Blobs], tmp_path: Path) -> None:
    ingest, dedup = opened("ingest"), opened("dedup")
    ingest.put_if_absent("ingest/kind/name", b"text")
    large = tmp_path / "large"
    large.write_bytes(b"x" * (70 << 20))
    dedup.put_if_absent("dedup/kind/large", large)
    assert dedup.get("ingest/kind/name") == b"text"
    assert [stat.key for stat in dedup.list("dedup/")] == ["dedup/kind/large"]
    dedup.delete("dedup/kind/large")
    with pytest.raises(BlobMissing):
        dedup.get("dedup/kind/large")
    dedup.put_if_absent("audit/dedup/000000000001", b"seal")
    for key in ("audit/dedup/000000000001", "stack/members/dedup"):
        with pytest.raises(BlobsRefused):
            dedup.delete(key)


@pytest.mark.parametrize("user", ["dedup", "agent-a"])
def test_a_key_is_refused_the_blobs_of_others(opened: Callable[[str], Blobs], user: str) -> None:
    ingest, other = opened("ingest"), opened(user)
    ingest.put_if_absent("ingest/kind/name", b"text")
    with pytest.raises(BlobsRefused, match=r"check the access key in blobs\.url, and its rights"):
        other.put_if_absent("ingest/kind/forged", b"forged")
    with pytest.raises(BlobsRefused):
        other.delete("ingest/kind/name")
    assert [stat.key for stat in ingest.list("ingest/")] == ["ingest/kind/name"]
    assert ingest.get("ingest/kind/name") == b"text"


def test_a_reader_reads_all_blobs_and_changes_none(opened: Callable[[str], Blobs]) -> None:
    ingest, reader = opened("ingest"), opened("reader")
    ingest.put_if_absent("ingest/kind/name", b"text")
    assert reader.get("ingest/kind/name") == b"text"
    assert [stat.key for stat in reader.list("ingest/")] == ["ingest/kind/name"]
    for key in ("ingest/kind/more", "reader/kind/name", "audit/reader/1", "stack/members/reader"):
        with pytest.raises(BlobsRefused):
            reader.put_if_absent(key, b"forged")
    with pytest.raises(BlobsRefused):
        reader.delete("ingest/kind/name")


def test_an_agent_adds_blobs_of_its_node_and_reads_those_of_all(opened: Callable[[str], Blobs], tmp_path: Path) -> None:
    a, b, committer = opened("agent-a"), opened("agent-b"), opened("committer")
    large = tmp_path / "large"
    large.write_bytes(b"x" * (70 << 20))
    a.put_if_absent("trainer/shards/j.0.5.1.0=a", large)
    a.put_if_absent("trainer/reports/j.0.5.1.0=a", b"report")
    assert b.get("trainer/reports/j.0.5.1.0=a") == b"report"
    assert b.get_range("trainer/shards/j.0.5.1.0=a", 1, 3) == b"xxx"
    a.put_if_absent("trainer/reports/j.0.5.1.0=a", b"report")
    with pytest.raises(BlobExists):
        a.put_if_absent("trainer/reports/j.0.5.1.0=a", b"another")
    committer.delete("trainer/shards/j.0.5.1.0=a")
    assert [stat.key for stat in committer.list("trainer/")] == ["trainer/reports/j.0.5.1.0=a"]


def test_an_agent_writes_over_deletes_and_forges_nothing_of_another_node(opened: Callable[[str], Blobs]) -> None:
    a, b = opened("agent-a"), opened("agent-b")
    b.put_if_absent("trainer/shards/j.0.5.1.1=b", b"state")
    for key in (
        "trainer/shards/j.0.5.1.1=b",
        "trainer/reports/j.0.5.1.1=b",
        "trainer/shards/a=b",
        "trainer/shards/j.0.5.1.1=a.b",
        "trainer/shards/j.0.5.1.1=a/b",
        "trainer/shards/j.0.5.1.1.bin",
        "committer/manifests/a",
        "stack/members/a",
        "audit/scheduler/a",
    ):
        with pytest.raises(BlobsRefused):
            overwrite(a, key, b"forged")
        with pytest.raises(BlobsRefused):
            a.delete(key)
    assert b.get("trainer/shards/j.0.5.1.1=b") == b"state"
    with pytest.raises(BlobsRefused):
        b.delete("trainer/shards/j.0.5.1.1=b")


def overwrite(blobs: Any, key: str, data: bytes) -> None:
    """What a program does that does not want to keep to `If-None-Match`."""
    blobs._asked("put", key, lambda: blobs._client._execute("PUT", blobs._bucket, key, body=data, no_body_trace=True))


def test_an_agent_does_not_read_what_it_does_not_need(opened: Callable[[str], Blobs]) -> None:
    agent = opened("agent-a")
    opened("ingest").put_if_absent("ingest/kind/name", b"text")
    opened("ingest").put_if_absent("ingest/document-shards/name", b"pages")
    opened("dedup").put_if_absent("dedup/kind/name", b"theirs")
    opened("agent-b").put_if_absent("trainer/experiences/j/0/1/digest=b", b"rollouts")
    agent.put_if_absent("trainer/experiences/j/0/1/digest=a", b"rollouts")
    assert agent.get("ingest/kind/name") == b"text"
    for key in ("ingest/document-shards/name", "dedup/kind/name", "trainer/experiences/j/0/1/digest=b"):
        with pytest.raises(BlobsRefused):
            agent.get(key)


def test_agents_too_many_for_the_policy_of_the_server_work_and_a_warning_says_that_they_are_not_kept_apart(
    tmp_path: Path, own_server: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    url = own_server("s3").up()
    nodes = [f"{number}" for number in range(8)]
    every = declared(DECLARED, nodes)
    (tmp_path / "own" / "s3" / "iam" / ACCOUNTS).write_text(accounts(dict.fromkeys(every, "secret")))
    assert len(policy("tutti", every, apart=False)) < SMALL < len(policy("tutti", every))
    ensure_bucket(url, every)
    parts = urlsplit(url)
    netloc = f"agent-0:secret@{parts.hostname}:{parts.port}"
    with closing(open_blobs(parts._replace(netloc=netloc).geturl())) as agent:
        agent.put_if_absent("trainer/shards/j.0.5.1.0=0", b"state")
        with pytest.raises(BlobsRefused):
            agent.delete("trainer/shards/j.0.5.1.0=0")
        try:
            overwrite(agent, "trainer/shards/j.0.5.1.1=1", b"forged")
        except BlobsRefused:
            apart = True  # its file system has room for the whole policy
        else:
            apart = False
    assert apart == ("every agent may write over what others wrote" not in caplog.text)


def test_a_right_that_is_taken_away_is_gone(opened: Callable[[str], Blobs], url: str) -> None:
    dedup = opened("dedup")
    dedup.put_if_absent("dedup/kind/name", b"mine")
    ensure_bucket(url, {"ingest": RIGHTS["ingest"]})
    with pytest.raises(BlobsRefused):
        dedup.put_if_absent("dedup/kind/more", b"mine")


def test_the_policy_of_all_services_fits_into_an_attribute_of_a_folder(
    tmp_path: Path, own_server: Callable[[str], Any]
) -> None:
    rights = declared(DECLARED, ["a", "b"])  # the agents of docker-compose.yml
    assert len(policy("tutti", rights, readers=["reader"])) < SMALL
    url = own_server("s3").up()
    (tmp_path / "own" / "s3" / "iam" / ACCOUNTS).write_text(accounts(dict.fromkeys([*rights, "reader"], "secret")))
    ensure_bucket(url, rights, ["reader"])


def test_a_key_that_nobody_has_is_refused(opened: Callable[[str], Blobs]) -> None:
    with pytest.raises(BlobsRefused, match=r"in blobs\.url"), closing(opened("stranger")) as found:
        found.get("ingest/kind/name")
