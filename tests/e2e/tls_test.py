"""TLS between processes: a platform that asks for certificates, the front door before it, and the command."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, environment, start, tutti
from tests.faults.processes import until
from tutti.chassis.config.datadir import tokens_in
from tutti.chassis.config.settings import installed_services
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.certificates import Pair, issue, make_authority

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
            [sys.executable, "-m", "tutti.chassis.runtime.door", "--data-dir", str(folder / "door")],
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
            process.communicate(timeout=60)


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
