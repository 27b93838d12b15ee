"""Messages that are received: so many at once, and none for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import DeadlineExceeded, Unavailable
from tutti.chassis.rpc import admission
from tutti.chassis.rpc.admission import Patient, Receiving, Streams


async def whole(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def unfinished() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


def test_a_message_that_is_never_whole_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MESSAGE_SECONDS", 0.05)

    async def receive() -> None:
        receiving = Receiving()
        assert await receiving.receive(whole(b"a"), "a call") == b"a"
        with pytest.raises(DeadlineExceeded, match="a call"):
            await receiving.receive(unfinished(), "a call")

    asyncio.run(receive())


def test_the_oldest_that_dawdles_gives_way_to_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "DAWDLE_SECONDS", 0.05)

    async def receive() -> None:
        receiving = Receiving(2)
        slow = [asyncio.ensure_future(receiving.receive(unfinished(), f"call {number}")) for number in range(2)]
        await asyncio.sleep(0)  # both are being received
        assert await receiving.receive(whole(b"a"), "another") == b"a"
        with pytest.raises(Unavailable, match="call 0"):
            await slow[0]
        assert not slow[1].done()
        slow[1].cancel()

    asyncio.run(receive())


def test_of_too_many_streams_the_oldest_gives_way() -> None:
    async def run() -> None:
        streams = Streams(2)
        opened = [asyncio.ensure_future(streams.run(forever(), f"stream {number}")) for number in range(3)]
        with pytest.raises(Unavailable, match="stream 0"):
            await asyncio.wait_for(opened[0], 30)
        await asyncio.sleep(0)
        assert [each.done() for each in opened] == [True, False, False]
        for each in opened[1:]:
            each.cancel()

    asyncio.run(run())


async def forever() -> None:
    await asyncio.Event().wait()


def test_however_many_watch_the_health_of_a_server_few_streams_are_open() -> None:
    async def run() -> None:
        server, servicer = grpc.aio.server(interceptors=[Patient([])]), health_aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        await servicer.set("", HealthCheckResponse.SERVING)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with connection_of_loop(f"127.0.0.1:{port}") as channel:
            watch: Any = health_pb2_grpc.HealthStub(channel).Watch  # type: ignore[attr-defined]
            watching = [watch(HealthCheckRequest(service="")) for _ in range(admission.MOST_STREAMS + 20)]
            ends = {asyncio.ensure_future(end(each)) for each in watching}
            ended = set[asyncio.Future[grpc.StatusCode]]()
            while len(ended) < 20:
                now, ends = await asyncio.wait(ends, timeout=60, return_when=asyncio.FIRST_COMPLETED)
                assert now, f"{len(ends)} streams are open"
                ended |= now
            assert {each.result() for each in ended} == {grpc.StatusCode.UNAVAILABLE}
            assert len(ends) == admission.MOST_STREAMS
        await server.stop(None)

    asyncio.run(run())


async def end(call: Any) -> grpc.StatusCode:
    """Read a stream to its end; its code."""
    with suppress(grpc.aio.AioRpcError):
        async for _ in call:
            pass
    code: grpc.StatusCode = await call.code()
    return code
