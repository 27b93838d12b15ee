"""Messages that are received: so many at once, and none for ever."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tutti.chassis.errors import DeadlineExceeded, Unavailable
from tutti.chassis.rpc import admission
from tutti.chassis.rpc.admission import Receiving


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
