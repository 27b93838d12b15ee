"""Server-sent events: one event, `version`, whenever what a page shows has changed.

Promises: a stream ends at once when the server drains, and soon after its session ended; a line is sent at least every
15 s, so that a broken connection is noticed; there are never more streams than allowed, in all and of a user.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

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
        if self._open.total() >= self._most:
            raise HttpProblem(503, f"{self._most} pages are kept up to date already (the setting web.streams)")
        if self._open[user] >= MOST_OF_USER:
            raise HttpProblem(503, f"{MOST_OF_USER} of your pages are kept up to date already: close some")
        return StreamingResponse(
            self._counted(user, look, check),
            headers={"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"},
        )

    async def _counted(
        self, user: str, look: Callable[[], Awaitable[str]], check: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[str]:
        self._open[user] += 1
        try:
            with contextlib.suppress(Problem, HttpProblem, TimeoutError):  # the browser asks again, and is told why
                async for line in self._lines(look, check):
                    yield line
        finally:
            self._open[user] -= 1
            self._open += Counter()  # without users that have none

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
