"""Reconciler: brings what is open nearer to its end, whatever events were missed.

Promises: `advance` is called for every open name at the start, then every `interval` seconds, and soon after `wake`;
one name at a time; an outage is tried again with backoff, any other error at the next interval. What is done for a
name, as long as it is open, is an effect of what woke it first.
"""

import logging
import threading
from collections.abc import Callable, Iterable

from tutti.chassis.errors import is_transient
from tutti.chassis.service import Host
from tutti.chassis.telemetry import span_from
from tutti.chassis.unit import Cause, Unit, caused_by, current_cause

MAX_BACKOFF = 30.0
_log = logging.getLogger(__name__)


class Reconciler:
    """A Loop. `open` lists the names that are open; `advance(name)` moves one on.

    `advance` returns True to be called again at once, a number to be called again after so many seconds, None when
    there is nothing to do until something happens.
    """

    def __init__(
        self,
        name: str,
        host: Host,
        *,
        open: Callable[[Unit], Iterable[str]],
        advance: Callable[[str], bool | float | None],
        interval: float = 30.0,
    ) -> None:
        self.name = f"{host.service} {name} reconciler"
        self.interval = min(interval, 0.5)  # how soon a due name is noticed; looking costs no transaction
        self.woken = threading.Event()
        self._host, self._open, self._advance, self._every = host, open, advance, interval
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._causes: dict[str, Cause] = {}
        self._lock = threading.Lock()
        self._look_at: float | None = None

    def look_every(self, seconds: float) -> None:
        """How long between two looks at all that is open; before the first step."""
        self.interval, self._every = min(seconds, self.interval), seconds

    def wake(self, name: str) -> None:
        """Advance this name soon; safe from any thread, meant for on_commit hooks."""
        cause = current_cause()
        with self._lock:
            self._due[name] = float("-inf")
            self._causes.setdefault(name, cause)
        self.woken.set()

    def step(self) -> bool:
        now = self._host.clock.monotonic()
        if self._look_at is None or now >= self._look_at:
            names = list(self._host.units.run(lambda unit: list(self._open(unit))))
            self._look_at = now + self._every
            with self._lock:
                kept = {*names, *self._due}
                self._causes = {found: cause for found, cause in self._causes.items() if found in kept}
                for found in names:
                    self._due[found] = min(now, self._due.get(found, now))
        name = self._next(now)
        if name is None:
            return False
        self._once(name)
        return True

    def _next(self, now: float) -> str | None:
        """The name that is due for longest, no longer due."""
        with self._lock:
            due = min(self._due.items(), key=lambda each: (each[1], each[0]), default=None)
            if due is None or due[1] > now:
                return None
            del self._due[due[0]]
            return due[0]

    def _once(self, name: str) -> None:
        with self._lock:
            cause = self._causes.get(name, Cause())
        try:
            with caused_by(cause.request_id), span_from(cause.traceparent, f"{self.name} advances {name}"):
                with self._lock:
                    self._causes.setdefault(name, current_cause())
                again = self._advance(name)
        except Exception as error:
            self._failed(name, error)
            return
        self._failures.pop(name, None)
        if again is True:
            self._later(name, 0.0)
        elif again is not None and again is not False:
            self._later(name, float(again))

    def _failed(self, name: str, error: Exception) -> None:
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        if is_transient(error):
            longest = min(MAX_BACKOFF, self._every, 0.1 * 2.0 ** min(failures, 10))
            self._later(name, self._host.randomness.uniform(longest / 2, longest))
            _log.info("%s: %s waits: %s", self.name, name, error)
        else:
            _log.error("%s: %s could not be advanced", self.name, name, exc_info=error)

    def _later(self, name: str, seconds: float) -> None:
        at = self._host.clock.monotonic() + seconds
        with self._lock:
            self._due[name] = min(at, self._due.get(name, at))
