"""A witness of loops: names the one that stands still, and the line where it does.

Promises: a step or an event loop that holds its thread for longer than allowed is named once while it does, not only
after; looking costs nothing to those who are looked at.
"""

import asyncio
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tutti.chassis.metrics import metrics
from tutti.chassis.runtime.frames import current_frames

log = logging.getLogger(__name__)
WARNED_FACTOR = 10  # a loop that is named, and counted, is warned of only when it stands still for so much longer
QUIET_SECONDS = 30.0  # between two warnings about the same name


class _Beat:
    def __init__(self, name: str, ping: Callable[["_Beat"], None] | None = None) -> None:
        self.name = name
        self.ping = ping
        self.thread = threading.get_ident()
        self.since: float | None = None
        self.named_since: float | None = None
        self.warned_since: float | None = None


class BlockedWatch:
    """One thread that looks at all; `seconds` is how long a step may hold its thread."""

    def __init__(self, seconds: float = 0.25) -> None:
        self._seconds = seconds
        self._beats: set[_Beat] = set()
        self._warned_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._lag = metrics.gauge("event_loop_lag_seconds", "How late the event loop answered the last time", "seconds")
        self._blocked = metrics.counter("loop_blocked", "Times that a loop stood still for too long", labels=["name"])
        self._thread = threading.Thread(target=self._look, name="blocked-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """The body is one step of a loop in this thread."""
        beat = _Beat(name)
        beat.since = time.monotonic()
        with self._lock:
            self._beats.add(beat)
        try:
            yield
        finally:
            with self._lock:
                self._beats.discard(beat)

    def watch(self, name: str, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Watch an event loop, from its own thread; call the result to stop."""

        def ping(beat: _Beat) -> None:
            def pong() -> None:
                if beat.since is not None:
                    self._lag.set(time.monotonic() - beat.since)
                beat.since = None

            beat.since = time.monotonic()
            loop.call_soon_threadsafe(pong)

        beat = _Beat(name, ping)
        with self._lock:
            self._beats.add(beat)

        def forget() -> None:
            with self._lock:
                self._beats.discard(beat)

        return forget

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(self._seconds / 2):
            now = time.monotonic()
            with self._lock:
                for beat in self._beats:
                    since = beat.since  # once: the event loop may answer meanwhile, and set it to None
                    if since is None:
                        self._ping(beat)
                        continue
                    if now - since > self._seconds and beat.named_since != since:
                        beat.named_since = since
                        self._blocked.labels(beat.name).inc()
                        self._say(logging.DEBUG, beat, since, now)
                    if now - since > WARNED_FACTOR * self._seconds and beat.warned_since != since:
                        beat.warned_since = since
                        if now - self._warned_at.get(beat.name, float("-inf")) >= QUIET_SECONDS:
                            self._warned_at[beat.name] = now
                            self._say(logging.WARNING, beat, since, now)

    def _ping(self, beat: _Beat) -> None:
        if beat.ping is not None:
            try:
                beat.ping(beat)
            except RuntimeError:  # the event loop closed
                beat.ping = None

    def _say(self, level: int, beat: _Beat, since: float, now: float) -> None:
        if not log.isEnabledFor(level):
            return
        frame = current_frames().get(beat.thread)
        where = guilty(traceback.extract_stack(frame)) if frame else "nowhere: its thread is gone"
        log.log(level, "%s has stood still for %.0f ms, in %s", beat.name, 1000 * (now - since), where)


def guilty(stack: Sequence[traceback.FrameSummary]) -> str:
    """The place where a thread is blocked, in one line, and the line of our code that led there. `stack` has the newest
    frame last.
    """
    ours = next((each for each in reversed(stack) if "tutti" in Path(each.filename).parts), stack[-1])
    frames = [stack[-1]] if ours is stack[-1] else [stack[-1], ours]
    return ", called by ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in frames)
