"""The link to a replica, over a stream whose end takes its time."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tutti.chassis.connections import connection_of_loop
from tutti.chat import links
from tutti.chat.links import Link
from tutti.contracts.chat.v1 import FollowResponse, Opened

DEADLINE = 30.0


class Stream:
    """Opens a session, then says nothing; a read that is cancelled ends when `freed` is set."""

    def __init__(self, freed: asyncio.Event) -> None:
        self.ending, self._freed, self._opened = asyncio.Event(), freed, False

    async def read(self) -> Any:
        if not self._opened:
            self._opened = True
            return FollowResponse(opened=Opened(session="s"))
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ending.set()
            await self._freed.wait()
            raise

    def cancel(self) -> None:
        """As a call of gRPC has it."""


def test_a_link_that_is_closed_while_its_stream_ends_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        freed, followed = asyncio.Event(), asyncio.Event()
        stream = Stream(freed)
        monkeypatch.setattr(links, "ReplicaServiceStub", lambda _: SimpleNamespace(Follow=lambda *_, **__: stream))
        link = Link("127.0.0.1:1", connection_of_loop, "any", followed.set, silence_seconds=DEADLINE)
        link.start()
        await asyncio.wait_for(followed.wait(), DEADLINE)
        assert link.session is not None
        link.drop(link.session, "ended its stream")
        await asyncio.wait_for(stream.ending.wait(), DEADLINE)
        closing = asyncio.ensure_future(link.close())
        await asyncio.sleep(0)  # its tasks are cancelled now, while the stream has not ended
        freed.set()
        await asyncio.wait_for(closing, DEADLINE)

    asyncio.run(work())
