"""TLS and mutual TLS between a client and a host that serves: what is accepted, and what an error says."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tutti.chassis.config.sections import TlsSettings
from tutti.chassis.config.settings import SettingsError, load
from tutti.chassis.demo_test import Demo, running
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.certificates import Pair, issue, make_authority
from tutti.chassis.rpc.channel import RpcChannel, Untrusted
from tutti.chassis.rpc.tls import explained, tls_of
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.ingest.v1.stubs import IngestServiceStub

HERE = ("localhost", "127.0.0.1")
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=10)
STACK, ANOTHER = make_authority("the stack", NOW), make_authority("another stack", NOW)


class Files:
    """The files of one process; `foreign` ones are certified by another authority than the one that they trust."""

    def __init__(self, folder: Path, pair: Pair | None = None, authority: Pair = STACK) -> None:
        self._folder = folder
        folder.mkdir()
        self.write("ca", authority.certificate)
        self.renew(pair or issue(STACK, HERE, NOW))

    def renew(self, pair: Pair) -> None:
        self.write("key", pair.key)
        self.write("certificate", pair.certificate)

    def write(self, name: str, content: bytes) -> None:
        beside = self._folder / f".{name}"
        beside.write_bytes(content)
        beside.chmod(0o600)
        os.replace(beside, self.path(name))

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.pem"

    def settings(self, *names: str, **more: str) -> TlsSettings:
        files = {name: str(self.path(name)) for name in names or ("ca", "certificate", "key")}
        return TlsSettings.model_validate(files | more)


@contextmanager
def serving(path: Path, settings: TlsSettings | None) -> Iterator[Demo]:
    given = [f"tls.{key}={value}" for key, value in settings.model_dump().items() if value] if settings else []
    with running(path / "data", *given) as demo:
        yield demo


def call(demo: Demo, settings: TlsSettings | None, host: str = "127.0.0.1") -> None:
    """Ask for a list. Raises Untrusted."""
    address = f"{host}:{demo.host.address.rpartition(':')[2]}"
    token, tls = demo.data_dir.tokens().of(Role.ENGINEER), tls_of(settings) if settings else None
    with closing(RpcChannel(lambda: address, token=token, tls=tls)) as channel:
        assert not IngestServiceStub(channel).ListIngests(ListRequest()).ingests


def test_a_client_that_trusts_the_authority_of_the_stack_is_answered_over_tls(tmp_path: Path) -> None:
    ours, theirs = Files(tmp_path / "ours"), Files(tmp_path / "theirs")
    with serving(tmp_path, ours.settings()) as demo:
        call(demo, theirs.settings("ca"))
        call(demo, theirs.settings("ca"), host="localhost")
        assert demo.host.channel("ingest").tls is not None
        with pytest.raises(Untrusted, match=r"speaks TLS: name the authority .* tls.ca"):
            call(demo, None)


def test_the_reason_is_found_for_a_name_of_which_another_address_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC has the last error of several addresses alone."""
    with serving(tmp_path, Files(tmp_path / "ours").settings()) as demo:
        port = int(demo.host.address.rpartition(":")[2])
        told = f"failed to connect to all addresses; last error: ipv4:127.0.0.2:{port}: Connection refused"
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert "tls.ca" in explained(f"two.example:{port}", None, told)


def test_the_certificate_of_a_server_that_cannot_be_trusted_is_refused_with_the_reason(tmp_path: Path) -> None:
    ours = Files(tmp_path / "ours")
    with serving(tmp_path, ours.settings()) as demo:
        stranger = Files(tmp_path / "stranger", authority=ANOTHER)
        with pytest.raises(Untrusted, match=r"is not signed by an authority in .*stranger/ca.pem"):
            call(demo, stranger.settings("ca"))
        ours.renew(issue(STACK, ["elsewhere.example"], NOW))
        with pytest.raises(Untrusted, match=r"is for elsewhere.example, not for 127.0.0.1"):
            call(demo, ours.settings("ca"))
    with serving(tmp_path, None) as plain, pytest.raises(Untrusted, match="does not speak TLS"):
        call(plain, ours.settings("ca"))


def test_a_server_that_asks_for_certificates_refuses_those_of_others_and_says_why(tmp_path: Path) -> None:
    ours, theirs = Files(tmp_path / "ours"), Files(tmp_path / "theirs")
    foreign = Files(tmp_path / "foreign", issue(ANOTHER, HERE, NOW))
    with serving(tmp_path, ours.settings(clients="certificate")) as demo:
        call(demo, theirs.settings())
        with pytest.raises(Untrusted, match=r"asks for a certificate of its clients: set tls.certificate and tls.key"):
            call(demo, theirs.settings("ca"))
        with pytest.raises(Untrusted, match=r"refused .*foreign/certificate.pem, which no authority in its tls.ca"):
            call(demo, foreign.settings())


def test_a_certificate_that_expires_while_the_server_runs_is_named_and_a_new_one_holds_without_a_restart(
    tmp_path: Path,
) -> None:
    ours, trusting = Files(tmp_path / "ours"), Files(tmp_path / "theirs").settings("ca")
    with serving(tmp_path, ours.settings()) as demo:
        call(demo, trusting)
        ours.renew(issue(ANOTHER, HERE, NOW))
        with pytest.raises(Untrusted, match="not signed"):  # the control: what was replaced is used
            call(demo, trusting)
        ours.renew(issue(STACK, HERE, LONG_AGO, days=5))
        with pytest.raises(Untrusted, match="not signed"):  # an expired one is not taken
            call(demo, trusting)
        ours.renew(issue(STACK, HERE, NOW))
        call(demo, trusting)


def test_a_client_whose_certificate_expired_while_it_ran_is_told_so(tmp_path: Path) -> None:
    ours, theirs = Files(tmp_path / "ours"), Files(tmp_path / "theirs")
    with serving(tmp_path, ours.settings(clients="certificate")) as demo:
        tls, address = tls_of(theirs.settings()), demo.host.address
        theirs.renew(issue(STACK, HERE, LONG_AGO, days=5))
        assert "which expired at" in explained(address, tls, "Socket closed")
        assert explained(address, tls, "Connection refused") == ""


def test_a_client_whose_certificate_was_renewed_presents_the_new_one(tmp_path: Path) -> None:
    ours, theirs = Files(tmp_path / "ours"), Files(tmp_path / "theirs", issue(ANOTHER, HERE, NOW))
    with serving(tmp_path, ours.settings(clients="certificate")) as demo:
        address, token = demo.host.address, demo.data_dir.tokens().of(Role.ENGINEER)
        with closing(RpcChannel(lambda: address, token=token, tls=tls_of(theirs.settings()))) as channel:
            with pytest.raises(Untrusted, match="which no authority"):
                IngestServiceStub(channel).ListIngests(ListRequest())
            theirs.renew(issue(STACK, HERE, NOW))
            IngestServiceStub(channel).ListIngests(ListRequest())


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (
            lambda files: files.renew(issue(STACK, HERE, LONG_AGO, days=5)),
            "certificate.pem expired at .*new one",
        ),
        (lambda files: files.renew(issue(STACK, HERE, NOW + timedelta(days=1))), "is valid from .*set the clock"),
        (lambda files: files.write("key", ANOTHER.key), "key.pem is not the key of .*replace both"),
        (lambda files: files.path("key").chmod(0o644), "can be read by others .*chmod 600"),
        (lambda files: files.write("certificate", b"none"), "holds no certificate"),
        (lambda files: files.path("key").unlink(), "key.pem cannot be read: No such file"),
        (
            lambda files: files.write("ca", make_authority("old", LONG_AGO, days=5).certificate),
            "ca.pem expired at .*make a new authority",
        ),
    ],
)
def test_a_process_with_files_that_cannot_be_used_does_not_start(tmp_path: Path, harm, words: str) -> None:  # type: ignore[no-untyped-def]
    files = Files(tmp_path / "ours")
    harm(files)
    with pytest.raises(SettingsError, match=words):
        tls_of(files.settings())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["tls.certificate=a", "tls.ca=c"], "certificate and key must be set together"),
        (["tls.certificate=a", "tls.key=b"], "ca is not"),
        (["tls.ca=c", "tls.clients=certificate"], "only servers with a certificate"),
    ],
)
def test_settings_that_would_encrypt_half_are_refused(given: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load(environment={}, overrides=given, services=[])
