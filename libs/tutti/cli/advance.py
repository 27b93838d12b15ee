"""Progress and speed of a stage, polled from its owner, as text."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tutti.client import Client
from tutti.contracts.common.v1 import GetRequest, Progress
from tutti.contracts.pipeline.v1 import Stage
from tutti.records.sizes import size
from tutti.report import crawls

ASK_SECONDS = 2.0  # between two looks: the URLs of a crawl are counted for each
RATE_SECONDS = 10.0  # over which a speed is measured
INTERVALS = 40  # between looks at a training that had made steps, over which its speed is measured
_CALLS: dict[str, Callable[[Client], Callable[[GetRequest], Any]]] = {
    "crawls": lambda client: client.ingest.GetCrawl,
    "ingests": lambda client: client.ingest.GetIngest,
    "dedups": lambda client: client.dedup.GetDedup,
    "tokenizations": lambda client: client.tokenization.GetTokenization,
}


class Rate:
    """The growth rate of a count, over the most recent seconds in which it was polled."""

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._seconds, self._seen = seconds, deque[tuple[float, int]]()

    def of(self, now: float, count: int) -> float:
        """A second; 0 until it has grown. A count that falls, as after a resumption, begins anew."""
        if self._seen and count < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, count))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._seconds:
            self._seen.popleft()
        (since, first), (until, last) = self._seen[0], self._seen[-1]
        return (last - first) / (until - since) if until > since else 0.0


class StepRate:
    """The speed of a training: the median over its newest steps, so a pause, as for held-out text, does not count."""

    def __init__(self, intervals: int = INTERVALS) -> None:
        self._last: tuple[float, int] | None = None
        self._paces = deque[tuple[float, int]](maxlen=intervals)

    def of(self, now: float, step: int) -> float:
        """Steps a second; 0 until there was a second look at a further step. A step that is lower begins anew."""
        if self._last is None or step < self._last[1]:
            self._paces.clear()
            self._last = (now, step)
        elif step > self._last[1] and now > self._last[0]:
            steps = step - self._last[1]
            self._paces.append(((now - self._last[0]) / steps, steps))
            self._last = (now, step)
        return self._median()

    def _median(self) -> float:
        """The inverse of the weighted median of the seconds for a step: half of the steps took at most as long."""
        half, passed = sum(steps for _, steps in self._paces) / 2, 0
        for seconds, steps in sorted(self._paces):
            passed += steps
            if passed >= half:
                return 1 / seconds
        return 0.0


class Advance:
    """Progress of the stages of a run; each is polled every ASK_SECONDS at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked, self._known = dict[str, float](), dict[str, Progress]()

    def of(self, client: Client, stage: Stage) -> Progress | None:
        """Return the progress of a stage, or None if it is unknown. Raises NotFound until its resource is created."""
        kind = stage.resource.partition("/")[0]
        if kind not in _CALLS:
            return None
        if self._clock() - self._asked.get(stage.name, float("-inf")) >= ASK_SECONDS:
            self._asked[stage.name] = self._clock()
            found = _CALLS[kind](client)(GetRequest(name=stage.resource))
            if kind == "crawls":
                visited = crawls.visited(found)
                self._known[stage.name] = Progress(done=visited, total=visited + crawls.waiting(found), unit="URLs")
            elif found.HasField("progress"):
                self._known[stage.name] = found.progress
        return self._known.get(stage.name)


def far(known: Progress) -> str:
    """Such as 30/40, or 12.3 MiB."""
    done, total = (size(each) if known.unit == "bytes" else f"{each:,}" for each in (known.done, known.total))
    return f"{done}{f'/{total}' if known.total else ''}"


def left(known: Progress, a_second: float) -> str:
    """Such as 3 min left; nothing while it cannot be told."""
    if not a_second or known.done >= known.total:
        return ""
    seconds = (known.total - known.done) / a_second
    for most, one, name in ((90, 1, "s"), (5400, 60, "min"), (float("inf"), 3600, "h")):
        if seconds < most:
            return f"{max(1, round(seconds / one)):,} {name} left"
    return ""


def speed(known: Progress, a_second: float) -> str:
    """Such as 3.1 MiB/s; nothing while it is not known."""
    if not a_second:
        return ""
    return f"{size(a_second)}/s" if known.unit == "bytes" else f"{a_second:,.0f} {known.unit}/s"
