"""The channel: what is sent again, and where."""

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from tests.network import PROXIES

from tutti.chassis.config.datadir import DataDir
from tutti.chassis.demo_test import Demo, running
from tutti.chassis.errors import NotFound, Unimplemented
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.channel import RpcChannel, Unreachable
from tutti.client import connect
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.contracts.lineage.v1 import TraceRequest
from tutti.contracts.lineage.v1.stubs import LineageServiceStub


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(tmp_path_factory.mktemp("channel")) as made:
        made.create("ingests/a")
        yield made


class Moving:
    """An address that is dead for the first `dead` attempts."""

    def __init__(self, demo: Demo, dead: int) -> None:
        self._demo, self._dead, self.asked = demo, dead, 0

    def __call__(self) -> str:
        self.asked += 1
        return "127.0.0.1:1" if self.asked <= self._dead else self._demo.host.address


def test_a_call_that_may_be_sent_again_follows_its_service_to_another_address(demo: Demo) -> None:
    address = Moving(demo, dead=2)
    with RpcChannel(address, token=demo.data_dir.tokens().of(Role.ENGINEER), attempts=4) as channel:
        assert IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a")).revision == 1
    assert address.asked == 3


def test_a_platform_listens_and_is_called_at_an_ipv6_address(tmp_path: Path) -> None:
    every = [f"{key}=[::1]:0" for key in ("rpc.listen", "web.listen", "telemetry.metrics_listen")]
    with running(tmp_path, *every) as six:
        six.create("ingests/a")
        with connect(tmp_path) as client:
            assert six.host.address.startswith("[::1]:")
            assert client.ingest.GetIngest(GetRequest(name="ingests/a")).revision


def test_a_call_ignores_the_variables_of_proxies(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PROXIES.items():
        monkeypatch.setenv(name, value)
    token = demo.data_dir.tokens().of(Role.ENGINEER)
    with RpcChannel(lambda: demo.host.address, token=token) as channel:
        assert IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a")).revision == 1
        assert IngestServiceStub(channel.copies()[demo.host.address]).GetIngest(GetRequest(name="ingests/a"))


class _Proxy(StreamRequestHandler):
    """An HTTP proxy that connects to the demo, whatever name is asked for, and records the name."""

    def handle(self) -> None:
        words = self.rfile.readline().decode().split()
        while self.rfile.readline().strip():
            pass
        server: Any = self.server
        server.names.append(words[1])
        host, _, port = server.leads_to.rpartition(":")
        with socket.create_connection((host, int(port))) as there:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            answers = threading.Thread(target=_copy, args=(there.makefile("rb", 0), self.wfile), daemon=True)
            answers.start()
            _copy(self.rfile, there.makefile("wb", 0))
            there.shutdown(socket.SHUT_RDWR)
            answers.join(10)


def _copy(source: Any, sink: Any) -> None:
    with suppress(OSError, ValueError):
        while data := source.read1(1 << 16) if hasattr(source, "read1") else source.read(1 << 16):
            sink.write(data)


def test_a_client_that_is_given_a_proxy_reaches_an_address_through_it(demo: Demo) -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), _Proxy) as proxy:
        proxy.daemon_threads = True
        proxy.names, proxy.leads_to = [], demo.host.address  # type: ignore[attr-defined]
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        with connect(
            address="platform.invalid:7600",
            token=demo.data_dir.tokens().of(Role.ENGINEER),
            proxy=f"http://127.0.0.1:{proxy.server_address[1]}",
        ) as client:
            assert client.ingest.GetIngest(GetRequest(name="ingests/a")).revision == 1
        proxy.shutdown()
        assert proxy.names == ["platform.invalid:7600"]  # type: ignore[attr-defined]


def test_a_method_that_does_not_declare_retry_is_sent_once(demo: Demo) -> None:
    address = Moving(demo, dead=2)
    with RpcChannel(address, token=secrets.token_hex(), attempts=4) as channel:
        call = channel.unary_unary("/not.declared.v1.Service/Method", None, Ingest.FromString)
        with pytest.raises(Unreachable):
            call(GetRequest(name="ingests/a"))
    assert address.asked == 1


def test_attempts_end_with_the_deadline(demo: Demo) -> None:
    address = Moving(demo, dead=1000)
    with RpcChannel(address, token=secrets.token_hex(), attempts=1000) as channel, pytest.raises(Unreachable):
        IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a"), timeout=0.5)
    assert 1 < address.asked < 100


def test_who_is_away_is_said_where_another_attempt_could_only_run_out_of_time(demo: Demo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        seen: list[str] = []

        def address() -> str:
            if seen:  # it takes connections and never answers
                return f"127.0.0.1:{silent.getsockname()[1]}"
            time.sleep(0.4)
            seen.append("127.0.0.1:1")
            return seen[0]

        with (
            RpcChannel(address, token=secrets.token_hex()) as channel,
            pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 "),
        ):
            IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a"), timeout=0.5)


def test_what_the_service_decided_is_not_asked_again(demo: Demo) -> None:
    address = Moving(demo, dead=0)
    with RpcChannel(address, token=demo.data_dir.tokens().of(Role.ENGINEER)) as channel, pytest.raises(NotFound):
        IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/none"))
    assert address.asked == 1


def test_a_service_that_is_elsewhere_is_named(demo: Demo, tmp_path: Path) -> None:
    with pytest.raises(Unimplemented, match="LineageService"):
        LineageServiceStub(demo.channel()).Trace(TraceRequest(name="jobs/x"))


def test_of_several_replicas_one_that_is_gone_is_left_for_another(demo: Demo) -> None:
    addresses = f"127.0.0.1:1,{demo.host.address},127.0.0.1:2"
    token = demo.data_dir.tokens().of(Role.ENGINEER)
    for _ in range(5):  # whichever is tried first
        with RpcChannel(lambda: addresses, token=token, attempts=4) as channel:
            ingest = IngestServiceStub(channel)
            assert ingest.GetIngest(GetRequest(name="ingests/a")).revision == 1
            assert channel.connected()[0] == demo.host.address  # and is kept to
            assert ingest.GetIngest(GetRequest(name="ingests/a")).revision == 1


def test_of_several_replicas_one_that_hangs_leaves_time_for_another(demo: Demo) -> None:
    with socket.socket() as hung:
        hung.bind(("127.0.0.1", 0))
        hung.listen()  # the kernel accepts and nobody answers, as with a process that was stopped
        addresses = f"127.0.0.1:{hung.getsockname()[1]},{demo.host.address}"
        token = demo.data_dir.tokens().of(Role.ENGINEER)
        for _ in range(4):
            with RpcChannel(lambda: addresses, token=token, attempts=4, deadline_seconds=4) as channel:
                assert IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a")).revision == 1


def test_a_replica_that_is_announced_no_more_is_not_called(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    for part in ("scheduler", "scheduler-2"):
        data_dir.announce(f"127.0.0.1:{len(part)}", part)
    data_dir.announce("127.0.0.1:1", "scheduler-x")
    assert data_dir.endpoint("scheduler") == "127.0.0.1:9,127.0.0.1:11"
    data_dir.withdraw("127.0.0.1:9", "scheduler")
    assert data_dir.endpoint("scheduler") == "127.0.0.1:11"


def test_each_replica_alone_has_a_channel_that_is_kept(demo: Demo) -> None:
    addresses = [f"127.0.0.1:1,{demo.host.address}"]
    with RpcChannel(lambda: addresses[0], token=demo.data_dir.tokens().of(Role.ENGINEER), attempts=1) as channel:
        copies = channel.copies()
        assert sorted(copies) == sorted(addresses[0].split(","))
        assert IngestServiceStub(copies[demo.host.address]).GetIngest(GetRequest(name="ingests/a")).revision == 1
        with pytest.raises(Unreachable):
            IngestServiceStub(copies["127.0.0.1:1"]).GetIngest(GetRequest(name="ingests/a"))
        addresses[0] = demo.host.address
        assert channel.copies() == {demo.host.address: copies[demo.host.address]}


def test_a_host_name_of_several_machines_is_an_address_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: str, family: int, kind: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        machines = ["10.0.0.2", "10.0.0.1"] if host == "dedup" else ["10.0.0.3"]
        return [(family, kind, 6, "", (each, int(port))) for each in machines]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with RpcChannel(lambda: "dedup:7600,alone:7600", token=secrets.token_hex()) as channel:
        assert sorted(channel.copies()) == ["10.0.0.1:7600", "10.0.0.2:7600", "alone:7600"]
