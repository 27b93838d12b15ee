"""The front door: one address, whatever answers behind it."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.faults.processes import until
from tests.network import PROXIES
from tests.web.hosted import hosted

from tutti.backbone.direct import fetch
from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.config.settings import installed_services
from tutti.chassis.connections import connection
from tutti.chassis.demo_test import Demo, running
from tutti.chassis.errors import InvalidField, NotFound, Unauthenticated, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import eventloop
from tutti.chassis.rpc.addresses import FORWARDED, signed
from tutti.chassis.runtime.healthfile import health_path
from tutti.chassis.store import audit
from tutti.client import Client, connect
from tutti.contracts.admin.v1 import DescribeRequest, DoctorRequest, ExportRequest, ListDeadLettersRequest
from tutti.contracts.common.v1 import CancelRequest, GetRequest
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.platform.door import DoorServer, health_of_door

NOWHERE = "127.0.0.1:1"
LIMIT = RpcSettings().max_message_bytes


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(tmp_path_factory.mktemp("door")) as demo:
        demo.create("ingests/a")
        yield demo


@contextmanager
def listening(demo: Demo, *, secret: str = "", **others: str) -> Iterator[str]:
    """The address of a door to the demo service and to `others`."""

    async def make() -> DoorServer:
        return DoorServer({"ingest": demo.host.address, **others}, RpcSettings(door_secret=secret))

    server = eventloop.run(make(), 10)
    try:
        yield eventloop.run(server.start("127.0.0.1:0"), 10)
    finally:
        eventloop.run(server.stop(), 10)


@contextmanager
def door(demo: Demo, *, token: str | None = None, **others: str) -> Iterator[Client]:
    """A client of a door to the demo service and to `others`."""
    with (
        listening(demo, **others) as address,
        connect(address=address, token=token or demo.data_dir.tokens().of(Role.OPERATOR)) as client,
    ):
        yield client


@contextmanager
def another_machine(address: str) -> Iterator[str]:
    """An address whose connections reach `address` from 127.0.0.2."""
    host, _, port = address.rpartition(":")

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError), closing(sink):
            while data := await source.read(1 << 16):
                sink.write(data)

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        await asyncio.gather(pump(source, requests), pump(answers, sink))

    async def make() -> asyncio.Server:
        return await asyncio.start_server(pass_on, "127.0.0.1", 0)

    async def close() -> None:
        server.close()

    server = eventloop.run(make(), 10)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    eventloop.run(close(), 10)


def test_a_call_and_its_error_pass_as_they_are(demo: Demo) -> None:
    with door(demo) as client:
        assert client.ingest.GetIngest(GetRequest(name="ingests/a")) == demo.ingest().GetIngest(
            GetRequest(name="ingests/a")
        )
        with pytest.raises(NotFound, match="ingests/b"):
            client.ingest.GetIngest(GetRequest(name="ingests/b"))


def test_the_door_ignores_the_variables_of_proxies(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PROXIES.items():
        monkeypatch.setenv(name, value)
    with door(demo) as client:
        assert client.ingest.GetIngest(GetRequest(name="ingests/a")).revision


def test_a_stream_goes_on_and_ends(demo: Demo) -> None:
    with door(demo) as client:
        seen = client.watch("ingests/a")
        first = next(seen)
        assert isinstance(first, Ingest)
        demo.change("ingests/a", "moved")
        second = next(seen)
        assert isinstance(second, Ingest)
        assert second.reason == "moved"
        assert [each.line for each in client.admin.Export(ExportRequest(service="ingest"))]


def test_the_door_lets_nobody_in_whom_the_service_would_not(demo: Demo) -> None:
    with door(demo, token="wrong") as client:  # noqa: S106 - that is the point
        with pytest.raises(Unauthenticated):
            client.ingest.GetIngest(GetRequest(name="ingests/a"))
        with pytest.raises(Unauthenticated):
            client.admin.Describe(DescribeRequest())


def test_a_service_that_is_away_is_named(demo: Demo) -> None:
    with door(demo, dedup=NOWHERE) as client:
        with pytest.raises(Unavailable, match=f"dedup cannot be reached at {NOWHERE}"):
            client.dedup.GetDedup(GetRequest(name="dedups/a"))
        with pytest.raises(Unavailable, match="no address of scheduler"):
            client.scheduler.GetJob(GetRequest(name="jobs/a"))


@pytest.mark.parametrize(
    ("service", "nbytes", "words"),
    [
        ("ingest.v1.IngestService/GetIngest", LIMIT + 1, f"has {LIMIT + 1} bytes, at most {LIMIT} are accepted"),
        ("dedup.v1.DedupService/GetDedup", 2 * LIMIT + 1, "larger than max"),
    ],
)
def test_a_message_that_is_too_large_gets_no_further_than_it_must(
    demo: Demo, service: str, nbytes: int, words: str
) -> None:
    token = demo.data_dir.tokens().of(Role.OPERATOR)
    with listening(demo, dedup=NOWHERE) as address, connection(address) as plain:
        call: Any = plain.unary_unary(f"/tutti.{service}")
        with pytest.raises(grpc.RpcError, match=words) as caught:
            call(bytes(nbytes), metadata=(("authorization", f"Bearer {token}"),), timeout=20)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_what_is_asked_of_all_is_answered_by_all(demo: Demo) -> None:
    with door(demo, dedup=NOWHERE) as client:
        described = {each.name: each.ready for each in client.admin.Describe(DescribeRequest()).services}
        assert described == {"dedup": False, "ingest": True}
        findings = {(each.service, each.check): each.ok for each in client.admin.Doctor(DoctorRequest()).findings}
        assert findings["ingest", "health"]
        assert not findings["dedup", "address"]
        with pytest.raises(Unavailable, match="dedup"):  # a list without its letters would look complete
            client.admin.ListDeadLetters(ListDeadLettersRequest())
    with door(demo) as client:
        assert list(client.admin.ListDeadLetters(ListDeadLettersRequest()).dead_letters) == []


def test_a_question_about_no_service_is_refused(demo: Demo) -> None:
    with door(demo) as client, pytest.raises(InvalidField, match="expected one of ingest"):
        client.admin._of("ingest").Doctor(DoctorRequest(service="nobody"))


def test_a_service_records_the_address_of_the_door_s_caller_and_not_one_that_a_caller_claims(demo: Demo) -> None:
    tokens = demo.data_dir.tokens()

    def recorded(address: str, role: Role, *claimed: tuple[str, str]) -> str:
        metadata = (("authorization", f"Bearer {tokens.of(role)}"), *claimed)
        with connection(address) as plain, pytest.raises(grpc.RpcError):
            IngestServiceStub(plain).CancelCrawl(CancelRequest(name="crawls/none"), metadata=metadata, timeout=20)
        records = demo.host.services[0].host.units.run(lambda unit: list(audit.newest(unit, 10)))
        assert records[0].user == f"users/{role.value}"
        return records[0].address

    with listening(demo, secret=tokens.door_secret) as front, another_machine(front) as address:
        assert recorded(address, Role.OPERATOR) == "127.0.0.2"
        claimed = (FORWARDED, signed("192.0.2.7", "a secret"))
        assert recorded(address, Role.ENGINEER, claimed) == "127.0.0.2"
    with listening(demo) as front, another_machine(front) as address:  # a door without the secret cannot say it
        assert recorded(address, Role.OPERATOR, claimed) == "127.0.0.1"


def test_the_process_of_a_door_that_reaches_no_service_is_unhealthy_and_measured(tmp_path: Path) -> None:
    addresses = [word for name in installed_services() for word in ("--set", f"services.{name}={NOWHERE}")]
    command = [sys.executable, "-m", "tutti.platform.door", "--data-dir", str(tmp_path), *addresses]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            (address,) = next(filter(None, (re.findall(r"http://(\S+)/metrics", line) for line in child.stderr)))
            with fetch(f"http://{address}/metrics", seconds=10) as answer:
                assert b"process_resident_memory_bytes" in answer.read()
            health = health_path(tmp_path, "door")
            until(health.exists, seconds=60, what="the health of the door")
            assert f"lineage cannot be reached at {NOWHERE}" in health.read_text()
        finally:
            child.terminate()


def test_health_is_that_of_the_services(demo: Demo) -> None:
    server = eventloop.run(_made(demo), 10)
    health = eventloop.run(server.door.health(), 10)
    eventloop.run(server.door.close(), 10)
    assert (health["ingest"].reason, health["ingest"].reached) == ("", True)
    assert (NOWHERE in health["dedup"].reason, health["dedup"].reached) == (True, False)
    assert health_of_door(health) == ""
    alone = health_of_door({"dedup": health["dedup"]})
    assert ("dedup" in alone, NOWHERE in alone) == (True, True)


async def _made(demo: Demo) -> DoorServer:
    return DoorServer({"ingest": demo.host.address, "dedup": NOWHERE}, RpcSettings())


def test_a_token_that_access_does_not_know_reaches_no_other_service(tmp_path: Path) -> None:
    with hosted(tmp_path) as found:
        make_door = partial(DoorServer, {"access": found.host.address, "ingest": NOWHERE}, RpcSettings())
        server = eventloop.run(_called(make_door), 10)
        try:
            address = eventloop.run(server.start("127.0.0.1:0"), 10)
            with connect(address=address, token="tutti-operator-unknown") as stranger:  # noqa: S106
                with pytest.raises(Unauthenticated):
                    stranger.ingest.GetIngest(GetRequest(name="ingests/a"))
                with pytest.raises(Unauthenticated):
                    stranger.admin.Doctor(DoctorRequest())
            token = found.data_dir.tokens().of(Role.OPERATOR)
            with connect(address=address, token=token) as known, pytest.raises(Unavailable, match="ingest"):
                known.ingest.GetIngest(GetRequest(name="ingests/a"))  # the control
        finally:
            eventloop.run(server.stop(), 10)


async def _called(make: Callable[[], DoorServer]) -> DoorServer:
    return make()
