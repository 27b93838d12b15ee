"""A platform that asks for certificates, the front door before it, the command, and machines that join: processes."""

import json
import os
import re
import secrets
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, environment, start, tutti
from tests.faults.processes import until
from tutti.chassis.config.datadir import tokens_at, tokens_in
from tutti.chassis.config.settings import installed_services, load
from tutti.chassis.errors import PermissionDenied, Unauthenticated
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.certificates import Pair, issue, make_authority
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.rpc.tls import tls_of
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.scheduler.v1 import NODE_STATE_READY, Node, RegisterNodeRequest
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub

HOSTS = ("localhost", "127.0.0.1")
NOW = datetime.now(UTC)


@dataclass
class Secured:
    data_dir: Path
    files: dict[str, str]
    door: str
    token: str

    def ask(self, *arguments: str, **more: str) -> tuple[int, str]:
        """Run a command against the front door; its exit code and what it printed."""
        given = {"TUTTI_TOKEN": self.token, **more}
        result = tutti(*arguments, "--address", self.door, extra=given)
        return result.code, result.out + result.err


def written(folder: Path, authority: Pair, pair: Pair) -> dict[str, str]:
    """Write the files of a process; the environment that names them."""
    folder.mkdir()
    for name, content in (("ca", authority.certificate), ("certificate", pair.certificate), ("key", pair.key)):
        with open(os.open(folder / f"{name}.pem", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)
    return {f"TUTTI_TLS__{name.upper()}": str(folder / f"{name}.pem") for name in ("ca", "certificate", "key")}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = make_authority("the stack", NOW)
    files = written(folder / "platform", authority, issue(authority, HOSTS, NOW))
    data_dir = folder / "data"
    platform = start("up", "--agents", "1", "--data-dir", data_dir, extra=files | {"TUTTI_TLS__CLIENTS": "certificate"})
    door: subprocess.Popen[str] | None = None
    try:
        until((data_dir / "endpoint").exists, seconds=60, what="the platform")
        address = (data_dir / "endpoint").read_text().strip()
        at = {f"TUTTI_SERVICES__{name.upper()}": address for name in installed_services()}
        door = subprocess.Popen(
            [sys.executable, "-m", "tutti.platform.door", "--data-dir", str(folder / "door")],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(written(folder / "files of the door", authority, issue(authority, HOSTS, NOW)) | at),
            cwd=ROOT,
        )
        assert door.stderr is not None
        lines = (re.search(r"front door is at ([0-9.:]+)", line) for line in door.stderr)
        found = next(filter(None, lines))
        yield Secured(data_dir, files, found[1], tokens_in(data_dir).of(Role.OPERATOR))
    finally:
        for process in filter(None, (door, platform)):
            process.terminate()
            process.communicate(timeout=400)


def test_an_agent_registers_and_a_command_is_answered_through_the_front_door(secured: Secured) -> None:
    ca = secured.files["TUTTI_TLS__CA"]
    until(lambda: " ready " in secured.ask("nodes", "ls", "--tls-ca", ca)[1], seconds=30, what="the node")
    code, said = secured.ask("users", "ls", TUTTI_TLS__CA=ca)
    assert code == 0, said


def test_who_does_not_trust_the_authority_or_speaks_no_tls_is_told_so(secured: Secured, tmp_path: Path) -> None:
    code, said = secured.ask("nodes", "ls")
    assert (code, "speaks TLS" in said, "--tls-ca" in said) == (3, True, True)
    stranger = tmp_path / "ca.pem"
    stranger.write_bytes(make_authority("another stack", NOW).certificate)
    code, said = secured.ask("nodes", "ls", "--tls-ca", str(stranger))
    assert (code, "not signed by an authority in" in said) == (3, True)
    code, said = secured.ask("nodes", "ls", "--tls-ca", str(tmp_path / "none.pem"))
    assert (code, "cannot be read" in said) == (2, True)


def test_a_service_takes_no_call_without_a_certificate_whatever_the_token(secured: Secured) -> None:
    """The port of the platform itself asks for certificates; the data directory's token is not enough."""
    given = {"TUTTI_TLS__CA": secured.files["TUTTI_TLS__CA"]}
    refused = tutti("nodes", "ls", "--data-dir", secured.data_dir, extra=given)
    assert (refused.code, "asks for a certificate of its clients" in refused.err) == (3, True)
    answered = tutti("nodes", "ls", "--data-dir", secured.data_dir, extra=secured.files)
    assert (answered.code, " ready " in answered.out) == (0, True), answered.err


def test_a_platform_with_an_expired_certificate_does_not_start(tmp_path: Path) -> None:
    authority = make_authority("the stack", NOW)
    files = written(tmp_path / "files", authority, issue(authority, HOSTS, NOW - timedelta(days=9), days=5))
    refused = tutti("up", "--data-dir", tmp_path / "data", extra=files, seconds=60)
    assert refused.code == 2, refused.err
    assert "certificate.pem expired at" in refused.err
    assert "have a new one issued" in refused.err


@dataclass
class Joined:
    """A machine that joined as nodes/gpu-7, with the invitation that it used."""

    data_dir: Path
    invitation: str
    channel: RpcChannel

    def register(self, node: str) -> Node:
        """Register with the credential of this machine. Raises Problem."""
        request = RegisterNodeRequest(name=node, incarnation=secrets.token_hex(4), slots=1, devices=["cpu"])
        return SchedulerServiceStub(self.channel).RegisterNode(request)


@pytest.fixture(scope="module")
def joined(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    folder, ca = tmp_path_factory.mktemp("joined") / "data", secured.files["TUTTI_TLS__CA"]
    code, said = secured.ask("agent", "invite", "gpu-7", "--tls-ca", ca, "-o", "json")
    assert code == 0, said
    invitation = json.loads(said)["token"]
    code, said = join(secured, folder, invitation)
    assert (code, f"python -P -m tutti.trainer --data-dir {folder} --node gpu-7" in said) == (0, True), said
    credential = tokens_at(folder / "agent.tokens", [Role.AGENT]).of(Role.AGENT)
    channel = RpcChannel(lambda: secured.door, token=credential, tls=tls_of(load(folder / "tutti.toml").values.tls))
    yield Joined(folder, invitation, channel)
    channel.close()


def join(secured: Secured, folder: Path, invitation: str, node: str = "gpu-7") -> tuple[int, str]:
    ca = secured.files["TUTTI_TLS__CA"]
    return secured.ask("agent", "join", node, "--tls-ca", ca, "--data-dir", str(folder), TUTTI_TOKEN=invitation)


def test_a_machine_that_joined_serves_its_node_and_can_be_no_other(secured: Secured, joined: Joined) -> None:
    with pytest.raises(PermissionDenied, match="that of nodes/gpu-7, so it cannot act as nodes/a") as refused:
        joined.register("nodes/a")
    assert refused.value.reason == "OTHER_NODE"
    command = [sys.executable, "-m", "tutti.trainer", "--data-dir", str(joined.data_dir), "--node"]
    other = subprocess.run([*command, "b"], capture_output=True, text=True, timeout=120, env=environment(), check=False)
    assert (other.returncode, "cannot act as nodes/b" in other.stderr) == (1, True), other.stderr
    agent = subprocess.Popen([*command, "gpu-7"], env=environment(), stderr=subprocess.DEVNULL)
    try:
        with closing(RpcChannel(lambda: secured.door, token=secured.token, tls=joined.channel.tls)) as channel:
            until(lambda: states(channel).get("nodes/gpu-7") == NODE_STATE_READY, seconds=60, what="the node")
    finally:
        agent.terminate()
        agent.wait(timeout=30)


def states(channel: RpcChannel) -> dict[str, int]:
    return {node.name: int(node.state) for node in SchedulerServiceStub(channel).ListNodes(ListRequest()).nodes}


def test_an_invitation_that_was_used_or_forged_is_refused_and_recorded(
    secured: Secured, joined: Joined, tmp_path: Path
) -> None:
    code, said = join(secured, tmp_path / "again", joined.invitation)
    assert (code, "the invitation was used before" in said, "INVITATION_REFUSED" in said) == (1, True, True), said
    code, said = join(secured, tmp_path / "forged", joined.invitation[:-4] + "AAAA")
    assert (code, "UNAUTHENTICATED" in said) == (1, True), said
    assert not (tmp_path / "again" / "tutti.toml").exists()
    ca = secured.files["TUTTI_TLS__CA"]
    code, said = secured.ask("audit", "--service", "access", "--tls-ca", ca, "-o", "json")
    assert code == 0, said
    records = {(each["action"], each["outcome"], each.get("reason", "")) for each in json.loads(said)}
    assert ("join as a node", "refused", "INVITATION_REFUSED") in records
    assert ("tutti.access.v1.AccessService/JoinNode", "refused", "UNAUTHENTICATED") in records
    assert {("invite a node", "changed", ""), ("join as a node", "changed", "")} <= records
    code, said = secured.ask("audit", "--service", "scheduler", "--tls-ca", ca, "-o", "json")
    refusals = [each for each in json.loads(said) if each.get("reason") == "OTHER_NODE"]
    assert {each["user"] for each in refusals} == {"nodes/gpu-7"}


def test_the_audit_trail_is_sealed_and_what_was_changed_is_found(secured: Secured, joined: Joined) -> None:
    ca, batches = secured.files["TUTTI_TLS__CA"], secured.data_dir / "blobs" / "audit" / "access"
    until(lambda: batches.is_dir() and any(batches.iterdir()), seconds=30, what="the first batch of access")
    command = ("audit", "verify", "--service", "access", "--tls-ca", ca)
    code, said = secured.ask(*command, "-o", "json")
    (found,) = json.loads(said)
    assert (code, found["problems"], found["head"].partition(":")[0]) == (0, [], str(found["batches"])), said
    first = min(batches.iterdir())
    sealed = first.read_bytes()
    assert b'"users/operator"' in sealed
    first.chmod(0o600)
    first.write_bytes(sealed.replace(b'"users/operator"', b'"users/engineer"'))
    code, said = secured.ask(*command)
    assert (code, "the records in the database fit" in said, "CHANGED" in said) == (1, True, True), said
    acknowledge = ("audit", "acknowledge", "access", "--tls-ca", ca, "-o", "json")
    code, said = secured.ask(*acknowledge)
    assert (code, [each["fits"] for each in json.loads(said)["differences"]]) == (0, ["database"]), said
    assert secured.ask(*command)[0] == 1
    code, said = secured.ask(*acknowledge, "--differences", json.loads(said)["digest"])
    assert (code, json.loads(said)["acknowledged"]) == (0, True), said
    code, said = secured.ask(*command, "-o", "json")
    assert (code, json.loads(said)[0]["acknowledged"]) == (0, 1), said
    first.write_bytes(sealed)
    assert secured.ask(*command)[0] == 0


def test_no_secret_of_a_machine_is_readable_by_others_or_known_to_the_platform(
    secured: Secured, joined: Joined
) -> None:
    credential = tokens_at(joined.data_dir / "agent.tokens", [Role.AGENT]).of(Role.AGENT)
    for file in ("agent.tokens", "tutti.toml"):
        assert stat.S_IMODE((joined.data_dir / file).stat().st_mode) == 0o600
    kept = [path for path in secured.data_dir.rglob("*") if path.is_file()]
    assert kept
    for secret in (credential, joined.invitation):
        assert not [path for path in kept if secret.encode() in path.read_bytes()]


def test_a_revoked_token_is_refused_within_seconds(secured: Secured, joined: Joined) -> None:
    ca = secured.files["TUTTI_TLS__CA"]
    code, said = secured.ask("token", "create", "--role", "engineer", "--tls-ca", ca, "-o", "json")
    assert code == 0, said
    made = json.loads(said)
    assert secured.ask("nodes", "ls", "--tls-ca", ca, TUTTI_TOKEN=made["token"])[0] == 0
    code, said = secured.ask("token", "revoke", made["id"], "--tls-ca", ca, TUTTI_TOKEN=made["token"])
    assert (code, "is revoked" in said) == (0, True), said  # its owner may
    code, said = secured.ask("token", "ls", "--tls-ca", ca, "-o", "json")
    tokens = {each["id"]: each for each in json.loads(said)}
    assert tokens[made["id"]]["state"] == "revoked"
    (node,) = [each for each in tokens.values() if each["kind"] == "node"]
    assert (node["owner"], node["state"], node["created_by"]) == ("nodes/gpu-7", "valid", "users/operator")
    assert secured.ask("token", "revoke", node["id"], "--tls-ca", ca)[0] == 0

    def refused() -> bool:
        try:
            joined.register("nodes/gpu-7")
        except Unauthenticated:
            return True
        return False

    until(refused, seconds=30, what="the refusal of a revoked credential")

    def unknown() -> bool:
        return secured.ask("nodes", "ls", "--tls-ca", ca, TUTTI_TOKEN=made["token"])[0] == 1

    until(unknown, seconds=30, what="the refusal of a revoked token")


def test_secrets_are_not_sent_to_another_machine_in_plain_text(tmp_path: Path) -> None:
    given = {"TUTTI_TOKEN": "tutti-invitation-a"}
    address = ("--address", "tutti.example:7600")
    result = tutti("agent", "join", "b", *address, "--data-dir", tmp_path / "data", extra=given)
    assert (result.code, "--tls-ca, or give --plaintext" in result.err) == (2, True)
    assert not (tmp_path / "data").exists()
