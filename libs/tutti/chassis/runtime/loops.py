"""Threads that own loops.

Promises: a loop is stepped by one thread alone; what a step raises is logged and the loop goes on, slower; when told to
drain it ends after the step that it is in, and those that do not are named.
"""

import logging
import threading
import time
from collections.abc import Iterable

from tutti.backbone import Clock
from tutti.backbone.backoff import Backoff
from tutti.chassis.errors import Problem, is_transient
from tutti.chassis.metrics import metrics
from tutti.chassis.runtime.blocked import BlockedWatch
from tutti.chassis.service import Loop

log = logging.getLogger(__name__)
BACKOFF = Backoff(0.2, 15.0)
MANY_FAILURES = 3


class LoopThread:
    def __init__(self, loop: Loop, *, clock: Clock, watch: BlockedWatch | None) -> None:
        self.name = loop.name
        self.started = False
        self._loop, self._clock = loop, clock
        # One that waits or works in its own step says so; to stand still is its business.
        self._watch = None if getattr(loop, "patient", False) else watch
        self._stop = threading.Event()
        self._woken = getattr(loop, "woken", None) or threading.Event()
        self._failures, self._error = 0, ""
        self._failed = metrics.counter("loop_failures", "Steps of loops that raised", labels=["name"])
        self._thread = threading.Thread(target=self._run, name=loop.name, daemon=True)

    def start(self) -> None:
        self.started = True
        self._thread.start()

    def tell_to_stop(self) -> None:
        self._stop.set()
        self._woken.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread; True if it has ended."""
        self._thread.join(max(seconds, 0))
        return not self._thread.is_alive()

    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def trouble(self) -> str:
        """Say that the loop fails again and again, and why. Empty while it works, or if another service is away, which
        is reported of that service.
        """
        failing = self._failures >= MANY_FAILURES and self._error
        return f"{self.name} fails again and again: {self._error}" if failing else ""

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.clear()
            if self._step() or self._stop.is_set():
                continue
            if self._failures:
                self._clock.wait(self._stop, BACKOFF.drawn(self._failures))
            else:
                self._clock.wait(self._woken, self._loop.interval)

    def _step(self) -> bool:
        try:
            if self._watch is None:
                busy = self._loop.step()
            else:
                with self._watch.step(self.name):
                    busy = self._loop.step()
        except Exception as error:
            words = "" if isinstance(error, Problem) else f"{type(error).__name__}: {error}"
            self._error = " ".join(words.split())
            self._failures = min(self._failures + 1, 10)
            self._failed.labels(self.name).inc()
            if is_transient(error):
                log.warning("%s waits for a store or service: %s", self.name, error)
            else:
                log.exception("%s failed %d times in a row; it will be retried", self.name, self._failures)
            return False
        self._failures = 0
        return busy


def drain(threads: Iterable[LoopThread], seconds: float) -> list[str]:
    """Tell all to stop, wait at most so long; the names of those that have not ended."""
    every = list(threads)
    for thread in every:
        thread.tell_to_stop()
    deadline = time.monotonic() + seconds
    return sorted(thread.name for thread in every if not thread.join(deadline - time.monotonic()))
