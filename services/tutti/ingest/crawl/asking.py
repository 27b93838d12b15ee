"""Asking: one URL of a host, as politely as its manner says, until there is an answer or none can be had.

Promises: one host is asked by no more connections, and no faster, than its manner allows; what passes (a host that is
busy or away) is tried again, as late as it asks for; nothing of an answer is held while its host is waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tutti.backbone.backoff import Backoff
from tutti.ingest.crawl.fetching import Answer, Fetches, Limits
from tutti.ingest.crawl.pacing import HostBusy, Late, Turn, retry_after
from tutti.ingest.failures import Failure, FetchFailed
from tutti.ingest.ranges import EVERY

if TYPE_CHECKING:
    from tutti.ingest.crawl.fetcher import Fetcher

AGENT = "tutti"
PASSING = (Failure.TIME, Failure.CONNECTION, Failure.NAME, Failure.CUT)
LONGEST_BACKOFF_SECONDS = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Manner:
    """The politeness of a crawl. `contact` is a URL or an address for the visited sites; `delay_seconds` is the minimum
    time between the starts of two requests to a host; robots.txt may require more. `connect`: the addresses of hosts,
    see Connect; `ranges` bounds both.
    """

    contact: str
    delay_seconds: float = 1.0
    connections_of_host: int = 1
    tries: int = 3
    limits: Limits = field(default_factory=Limits)
    allow_private: bool = False
    connect: Mapping[str, str] = field(default_factory=dict)
    ranges: tuple[str, ...] = EVERY

    @property
    def agent(self) -> str:
        """The header User-Agent."""
        return f"{AGENT} (+{self.contact})"

    def fetcher(self, limits: Limits, *, wanted: Collection[str] | None = None) -> Fetcher:
        """A client that asks so; see there."""
        # It brings an HTTP client, for which only a crawl waits.
        from tutti.ingest.crawl.fetcher import Fetcher

        return Fetcher(
            self.agent,
            limits,
            wanted=wanted,
            allow_private=self.allow_private,
            ranges=self.ranges,
            connect=self.connect,
        )


@dataclass(frozen=True, slots=True)
class Came:
    """The result of a request with retries, the last with the headers `asked`: an answer, of a host that was given up
    if it is `busy`; or a failure.
    """

    tries: int
    asked: Mapping[str, str] = field(default_factory=dict)
    answer: Answer | None = None
    busy: bool = False
    failure: Failure = Failure.UNEXPECTED
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    """A URL that is put off: it was asked for so many times by now, and is not to be for so many seconds."""

    tries: int = 0
    wait_seconds: float = 0.0


NEW = Put()


@dataclass(frozen=True, slots=True)
class Asking:
    """The parameters of requests. `begins`: True if a request may start at a time of the loop; always if it is None."""

    fetcher: Fetches
    manner: Manner
    turn: Turn
    begins: Callable[[float], bool] | None = None

    async def ask(self, url: str, headers: Callable[[], Mapping[str, str]] = dict, before: Put = NEW) -> Came | Put:
        """GET a canonical URL, with headers that are made when its turn has come.

        What fails for a reason of which nobody thought is a failure of that URL: others go on.
        """
        tries, wait = before.tries, before.wait_seconds
        loop = asyncio.get_running_loop()
        while True:
            if wait > 0:
                if self.begins is not None and not self.begins(loop.time() + wait):
                    return Put(tries, wait)
                await asyncio.sleep(wait)
            try:
                came, wait = await self._once(url, headers, tries + 1)
            except Late:
                return Put(tries)
            except HostBusy:
                detail = "its host asks to be left alone for longer, or more often, than is waited"
                return Came(tries, failure=Failure.BUSY, detail=detail)
            except MemoryError:
                raise
            except Exception as error:
                _log.exception("%s could not be requested", url)
                return Came(tries + 1, detail=f"{type(error).__name__}: {error}")
            if came is not None:
                return came
            tries += 1

    async def _once(self, url: str, headers: Callable[[], Mapping[str, str]], tries: int) -> tuple[Came | None, float]:
        """The result of one request, or the seconds after which it is retried. Raises HostBusy, Late."""
        turn, manner, asked = self.turn, self.manner, dict[str, str]()
        last = tries >= manner.tries
        try:
            async with turn.taken(self.begins) as held:
                asked.update(headers())
                answer = await self.fetcher.fetch(url, asked)
                wait = wait_of(answer, tries, manner)
                if wait is None:
                    turn.answered()
                else:
                    turn.hold(wait, held)
        except FetchFailed as error:
            if error.failure in PASSING and not last:
                return None, backoff(tries, manner)
            return Came(tries, asked, failure=error.failure, detail=error.detail), 0.0
        if (answer.status == 429 or answer.status >= 500) and not last and not turn.over:
            return None, backoff(tries, manner) if wait is None else 0.0
        return Came(tries, asked, answer, busy=wait is not None and turn.over), 0.0


def wait_of(answer: Answer, tried: int, manner: Manner) -> float | None:
    """Seconds for which an answer asks that the whole host be left alone, if it does."""
    if answer.status not in (429, 503):
        return None
    wait = retry_after(answer)
    return backoff(tried, manner) if wait is None and answer.status == 429 else wait


def backoff(tried: int, manner: Manner) -> float:
    return Backoff(max(manner.delay_seconds, 0.1), LONGEST_BACKOFF_SECONDS).longest(tried + 1)
