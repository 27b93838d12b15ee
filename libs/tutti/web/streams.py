"""Server-sent events: one event, `version`, whenever what a page shows has changed, or those of a `Follow` route.

Promises: a stream of versions ends at once when the server drains; each ends soon after its session; a line is sent at
least every 15 s, so that a broken connection is noticed; there are never more streams than allowed, in all and of a
user.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator

from starlette.responses import Response, StreamingResponse

from tutti.chassis.errors import Problem
from tutti.web.calls import HttpProblem

LOOK_SECONDS, QUIET_SECONDS, CHECK_SECONDS = 1.0, 15.0, 15.0
AGAIN_MILLISECONDS = 2000
MOST_OF_USER = 16


class Streams:
    def __init__(self, draining: asyncio.Event, most: int) -> None:
        self._draining, self._most = draining, most
        self._open = Counter[str]()

    def answer(self, user: str, look: Callable[[], Awaitable[str]], check: Callable[[], Awaitable[None]]) -> Response:
        """A stream of what `look` returns whenever that changes, while `check` raises nothing."""
        self._check_room(user)
        return StreamingResponse(
            self._counted(user, look, check),
            headers={"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"},
        )

    def following(
        self, user: str, events: AsyncGenerator[str, None], check: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[str, None]:
        """These events while `check` raises nothing, counted as a stream of the user. Raises HttpProblem."""
        self._check_room(user)
        return self._following(user, events, check)

    def _check_room(self, user: str) -> None:
        if self._open.total() >= self._most:
            raise HttpProblem(503, f"{self._most} pages are kept up to date already (the setting web.streams)")
        if self._open[user] >= MOST_OF_USER:
            raise HttpProblem(503, f"{MOST_OF_USER} of your pages are kept up to date already: close some")

    @contextlib.contextmanager
    def _counting(self, user: str) -> Iterator[None]:
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            self._open += Counter()  # without users that have none

    async def _following(
        self, user: str, events: AsyncGenerator[str, None], check: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[str, None]:
        with self._counting(user):
            async with contextlib.aclosing(checked(events, check)) as found:
                async for each in found:
                    yield each

    async def _counted(
        self, user: str, look: Callable[[], Awaitable[str]], check: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[str]:
        failures = (Problem, HttpProblem, TimeoutError)
        with self._counting(user), contextlib.suppress(*failures):  # the browser asks again, and is told why
            async for line in self._lines(look, check):
                yield line

    async def _lines(
        self, look: Callable[[], Awaitable[str]], check: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[str]:
        yield f"retry: {AGAIN_MILLISECONDS}\n\n"
        said, spoken_at = "", 0.0
        checked_at = time.monotonic()
        while not self._draining.is_set():
            version, now = await look(), time.monotonic()
            if version != said:
                said, spoken_at = version, now
                yield f"event: version\ndata: {version}\n\n"
            elif now - spoken_at > QUIET_SECONDS:
                spoken_at = now
                yield ": still here\n\n"
            if now - checked_at > CHECK_SECONDS:
                checked_at = now
                await check()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._draining.wait(), LOOK_SECONDS)


async def checked(events: AsyncGenerator[str, None], check: Callable[[], Awaitable[None]]) -> AsyncGenerator[str, None]:
    """These events, for as long as `check` raises nothing; it is called about every 15 s."""
    following: asyncio.Future[str | None] | None = None
    checked_at = time.monotonic()
    try:
        while True:
            following = following or asyncio.ensure_future(anext(events, None))
            await asyncio.wait({following}, timeout=CHECK_SECONDS)
            if time.monotonic() - checked_at > CHECK_SECONDS:
                checked_at = time.monotonic()
                await check()
            if not following.done():
                continue
            said, following = following.result(), None
            if said is None:
                return
            yield said
    finally:
        if following is not None:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await following
        await events.aclose()
