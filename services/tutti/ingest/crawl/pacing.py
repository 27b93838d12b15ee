"""Pacing: when a host may be asked.

Promises: between the beginnings of two requests to a host lies its delay, whichever batches they are in; a host that
asks to be left alone is not asked for anything until then.
"""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from tutti.backbone.clock import Clock
from tutti.ingest.crawl.fetching import Answer

LONGEST_WAIT_SECONDS = 600.0
"""A host that asks to be left alone for longer is left alone, and its pages that come up until then are given up."""


class HostBusy(Exception):
    """A host that is given up for now: it asks to be left alone for too long, or again and again."""


class Late(Exception):
    """A question that is not asked for now: there is no more time or room for it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate limit of a host: `delay_seconds` between the starts of two requests, the first not before `wait_seconds`
    from now. `refusals`: how often in a row it asked to wait, each time after that wait.
    """

    delay_seconds: float = 0.0
    wait_seconds: float = 0.0
    refusals: int = 0


class Paces:
    """The paces of a crawl's hosts between its batches."""

    def __init__(self, clock: Clock, delay_seconds: float) -> None:
        self._clock, self._delay = clock, delay_seconds
        self._next: dict[str, float] = {}
        self._refusals: dict[str, int] = {}

    def __contains__(self, host: str) -> bool:
        return host in self._next

    def of(self, host: str, asked_delay: float = 0.0) -> Pace:
        """The pace of a host that asks for a delay itself."""
        return Pace(max(self._delay, asked_delay), self.wait(host), self._refusals.get(host, 0))

    def wait(self, host: str) -> float:
        """Seconds until it may be asked."""
        return max(0.0, self._next[host] - self._clock.monotonic()) if host in self._next else 0.0

    def asked(self, host: str, asked_delay: float = 0.0) -> None:
        """It was asked just now, or may have been."""
        self.keep({host: Pace(wait_seconds=max(self._delay, asked_delay), refusals=self._refusals.get(host, 0))})

    def keep(self, paces: Mapping[str, Pace]) -> None:
        """Store the rate limits of hosts."""
        now = self._clock.monotonic()
        for host, pace in paces.items():
            self._next[host] = now + pace.wait_seconds
            self._refusals[host] = pace.refusals


class Turn:
    """The time at which a host may be requested within a batch; of one event loop."""

    def __init__(self, pace: Pace, connections: int, tries: int) -> None:
        self._delay, self._tries = pace.delay_seconds, tries
        self._connections = asyncio.Semaphore(connections)
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + pace.wait_seconds
        # One that was given up in an earlier batch is asked once in each.
        self._refusals = min(pace.refusals, tries - 1)
        self._held = 0

    @property
    def over(self) -> bool:
        """True if the host is given up."""
        return self._refusals >= self._tries or self._next - self._loop.time() > LONGEST_WAIT_SECONDS + self._delay

    @property
    def pace(self) -> Pace:
        """The state for the next batch."""
        return Pace(self._delay, max(0.0, self._next - self._loop.time()), self._refusals)

    @asynccontextmanager
    async def taken(self, begins: Callable[[float], bool] | None = None) -> AsyncIterator[int]:
        """A question to the host: how often it had asked to be left alone when it was asked.

        Raises HostBusy; Late where `begins` says no of the time of the loop at which the host may be asked.
        """
        async with self._connections:
            # Once more after each sleep: others may have been first, or have heard that the host is to be left alone.
            while not self.over:
                now = self._loop.time()
                if begins is not None and not begins(max(self._next, now)):
                    raise Late
                if self._next <= now:
                    break
                await asyncio.sleep(self._next - now)
            if self.over:
                raise HostBusy
            self._next = self._loop.time() + self._delay
            yield self._held

    def hold(self, seconds: float, held: int) -> None:
        """The host asks, in an answer to what was asked when it had been held so often, to be left alone."""
        self._next = max(self._next, self._loop.time() + seconds)
        if held == self._held:
            self._held += 1
            self._refusals += 1

    def answered(self) -> None:
        """The host is not, or no longer, too busy."""
        self._refusals = 0


def retry_after(answer: Answer) -> float | None:
    """Seconds that the header asks for; None where it says nothing that can be read."""
    asked = answer.header("Retry-After").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked[:9])
    try:
        until = email.utils.parsedate_to_datetime(asked)
    except (ValueError, TypeError, OverflowError):
        return None
    if until.tzinfo is None:  # what is written as -0000
        until = until.replace(tzinfo=UTC)
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)
