"""Hosts in virtual time: a crawl of minutes takes none, and every request has the second in which it came."""

import asyncio
import itertools
import selectors
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tutti.backbone import ManualClock
from tutti.ingest.crawl.announcements import RobotsAnswer, read_sitemap, robots_all, sitemap_at
from tutti.ingest.crawl.fetching import Answer
from tutti.ingest.crawl.urls import host_of
from tutti.ingest.crawl.visiting import visit_all, visits

Headers = tuple[tuple[str, str], ...]
HTML = ("Content-Type", "text/html")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which time passes when all wait."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_Selector(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.monotonic()


class _Selector(selectors.SelectSelector):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "all wait for ever"
        if timeout > 0:
            self._clock.advance(max(timeout, 1e-6))
        return []


class Hosts:
    """Answers to every GET by `answer` (URL, how often it was asked) after `seconds` (of URL); notes what came when."""

    def __init__(
        self,
        clock: ManualClock,
        answer: Callable[[str, int], tuple[int, Headers, bytes]],
        robots: Mapping[str, bytes | Callable[[int], tuple[int | None, bytes]]] | None = None,
        seconds: float | Callable[[str], float] = 0.0,
    ) -> None:
        self._clock, self._answer, self._robots = clock, answer, robots or {}
        self._seconds = seconds if callable(seconds) else lambda url: seconds
        self.asked: list[tuple[float, str]] = []
        self.under_way: dict[str, int] = defaultdict(int)
        self.most_under_way = 0
        self.robots_asked: list[tuple[float, str]] = []
        self.batches: list[list[str]] = []

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        host = host_of(url)
        self.asked.append((self._clock.monotonic(), url))
        self.under_way[host] += 1
        self.most_under_way = max(self.most_under_way, self.under_way[host])
        await asyncio.sleep(self._seconds(url))
        self.under_way[host] -= 1
        status, named, body = self._answer(url, [each for _, each in self.asked].count(url))
        return Answer(url, "HTTP/1.1", status, "", named, body)

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """In the place of a pool of processes."""
        if work is robots_all:
            return [self._rules(host) for host in arguments[0]]
        if work is read_sitemap:
            return self.virtually(sitemap_at(self, *arguments))
        assert work is visit_all
        self.batches.append(list(arguments[0]))
        return self.virtually(visits(self, *arguments))

    def _rules(self, host: str) -> RobotsAnswer:
        self.robots_asked.append((self._clock.monotonic(), host))
        found = self._robots.get(host, b"")
        if isinstance(found, bytes):
            return RobotsAnswer(host, 200, found)
        return RobotsAnswer(host, *found([each for _, each in self.robots_asked].count(host)))

    def virtually(self, work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(self._clock)) as runner:
            return runner.run(work)

    def times(self, host: str) -> list[float]:
        """When a host was asked for pages."""
        return [at for at, url in self.asked if host_of(url) == host]

    def gaps(self, host: str) -> list[float]:
        times = self.times(host)
        return [after - before for before, after in itertools.pairwise(times)]


def page(links: list[str]) -> tuple[int, Headers, bytes]:
    return 200, (HTML,), "".join(f"<a href='{each}'>a page</a>" for each in links).encode()
