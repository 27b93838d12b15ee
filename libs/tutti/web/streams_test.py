"""Streams: how many are open at once, in all and of one user."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.responses import StreamingResponse

from tutti.web.calls import HttpProblem
from tutti.web.streams import MOST_OF_USER, Streams


async def look() -> str:
    return "1"


async def check() -> None:
    """Every session is valid."""


def test_one_user_does_not_take_all_streams() -> None:
    async def run() -> None:
        streams = Streams(asyncio.Event(), 3 * MOST_OF_USER)
        opened = list[StreamingResponse]()

        async def open_(user: str) -> None:
            response = streams.answer(user, look, check)
            assert isinstance(response, StreamingResponse)
            await anext(aiter(response.body_iterator))
            opened.append(response)

        for _ in range(MOST_OF_USER):
            await open_("users/one")
        with pytest.raises(HttpProblem):
            await open_("users/one")
        await open_("users/other")
        closed = opened[0].body_iterator
        assert isinstance(closed, AsyncGenerator)
        await closed.aclose()
        await open_("users/one")

    asyncio.run(run())


def test_events_end_with_their_session_and_count_as_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tutti.web.streams.CHECK_SECONDS", 0.0)
    closed = list[str]()

    async def silent() -> AsyncGenerator[str, None]:
        try:
            yield "first"
            await asyncio.Event().wait()
        finally:
            closed.append("events")

    async def ended() -> None:
        raise HttpProblem(401, "the session has ended")

    async def run() -> None:
        streams = Streams(asyncio.Event(), 1)
        followed = streams.following("users/one", silent(), check)
        assert await anext(followed) == "first"
        with pytest.raises(HttpProblem):
            streams.following("users/other", silent(), check)
        await followed.aclose()
        with pytest.raises(HttpProblem, match="session has ended"):
            [each async for each in streams.following("users/other", silent(), ended)]
        assert closed == ["events", "events"]

    asyncio.run(run())
