"""Reconciler: brings what is open nearer to its end, whatever events were missed.

Promises: `advance` is called for every open name at the start, then every `interval` seconds, and soon after `wake`;
one name at a time; an outage is tried again with backoff, any other error at the next interval. Every error is told to
`tell`, which writes it into the resource's reason; a defect or a refusal that lasts for `ATTEMPTS` intervals is final,
an outage or a missed deadline never is. What is done for a name, as long as it is open, is an effect of what woke it
first, on behalf of the user who asked for it.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tutti.backbone.backoff import Backoff
from tutti.chassis.errors import Cancelled, FencedOff, Problem, is_transient
from tutti.chassis.identity.cause import Cause, caused_by, current_cause
from tutti.chassis.identity.principal import Principal
from tutti.chassis.service import Host
from tutti.chassis.store import origins
from tutti.chassis.store.terms import Deposed
from tutti.chassis.store.unit import Unit
from tutti.chassis.telemetry import span_from

FIRST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 0.2, 30.0
ATTEMPTS = 10
WOKEN = float("-inf")
RETRYING, GAVE_UP = "retrying: ", "gave up after "
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trouble:
    """The reason why a resource could not be advanced; `final` means that its owner gives up and ends it."""

    reason: str
    final: bool


Tell = Callable[[Unit, str, Trouble | None], None]
"""`tell(unit, name, trouble)` records why a resource is not advanced; None means that it was advanced.

It is called with None too when nothing was told before: a former process may have left its trouble in the reason, which
then begins with RETRYING. It must do nothing for a resource that has ended.
"""


@dataclass
class _Failures:
    """The failures of one resource since it was last advanced. `counted` are those that can become final, one per
    interval.
    """

    all: int = 0
    counted: int = 0
    counted_at: float = float("-inf")


class Reconciler:
    """A Loop. `open` lists the names that are open; `advance(name)` moves one on; `tell` records why it does not move.

    `advance` returns True to be called again at once, a number to be called again after so many seconds, None when
    there is nothing to do until something happens. The leader of the service alone advances: in other replicas, a name
    that is woken is handed to it.
    """

    led = True

    def __init__(
        self,
        name: str,
        host: Host,
        *,
        open: Callable[[Unit], Iterable[str]],
        advance: Callable[[str], bool | float | None],
        tell: Tell,
        interval: float = 30.0,
    ) -> None:
        self.name = f"{host.service} {name} reconciler"
        self.interval = 0.5  # how soon a due name is noticed; looking costs no transaction
        self.look_every(interval)
        self.woken = threading.Event()
        self._host, self._open, self._advance, self._tell = host, open, advance, tell
        self._due: dict[str, float] = {}
        self._failures: dict[str, _Failures] = {}
        self._advanced: set[str] = set()
        self._causes: dict[str, Cause] = {}
        self._principals: dict[str, Principal | None] = {}
        # Found by a look, so in a trace of their own: a call or an event that wakes the name is its cause from then on.
        self._uncaused: set[str] = set()
        self._lock = threading.Lock()
        self._look_at: float | None = None

    def look_every(self, seconds: float) -> None:
        """Set the interval between two reconciliations of all open resources; call it before the first step."""
        self.interval, self._every = min(seconds, self.interval), seconds
        self._backoff = Backoff(FIRST_BACKOFF_SECONDS, min(MOST_BACKOFF_SECONDS, seconds))

    def wake(self, name: str) -> None:
        """Advance this name soon; safe from any thread, meant for on_commit hooks."""
        self.take_over(name, current_cause().afterwards())
        self.woken.set()

    def take_over(self, name: str, cause: Cause) -> None:
        """Advance this name soon, as an effect of `cause`."""
        with self._lock:
            self._due[name] = WOKEN
            if name in self._uncaused:
                self._uncaused.discard(name)
                del self._causes[name]
            self._causes.setdefault(name, cause)

    def lead(self) -> None:
        """Look at everything that is open: former leaders may have left it anywhere."""
        self._look_at = None
        self._advanced.clear()
        self._failures.clear()

    def follow(self) -> dict[str, Cause]:
        """Take the names that were woken, with their causes, and forget all else."""
        with self._lock:
            woken = {name: self._causes.get(name, Cause()) for name, due in self._due.items() if due == WOKEN}
            self._due.clear()
            self._causes.clear()
            self._uncaused.clear()
        return woken

    def step(self) -> bool:
        now = self._host.clock.monotonic()
        if self._look_at is None or now >= self._look_at:
            names = list(self._host.units.run(lambda unit: list(self._open(unit))))
            self._look_at = now + self._every
            with self._lock:
                kept = {*names, *self._due}
                self._causes = {found: cause for found, cause in self._causes.items() if found in kept}
                self._uncaused &= self._causes.keys()
                self._principals = {found: user for found, user in self._principals.items() if found in kept}
                self._failures = {found: failed for found, failed in self._failures.items() if found in kept}
                self._advanced &= kept
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
            following = replace(cause, principal=self._principal(name), traceparent="")
            with caused_by(following), span_from(cause.traceparent, f"{self.name} advances {name}"):
                with self._lock:
                    if name not in self._causes:
                        self._causes[name] = current_cause()
                        self._uncaused.add(name)
                again = self._advance(name)
        except Deposed:
            raise
        except Exception as error:
            self._failed(name, error)
            return
        if name not in self._advanced:
            self._told(name, None)
            self._advanced.add(name)
            self._failures.pop(name, None)
        if again is True:
            self._later(name, 0.0)
        elif again is not None and again is not False:
            self._later(name, float(again))

    def _principal(self, name: str) -> Principal | None:
        """Return the user who asked for the resource; the event that woke it may be of another, such as an agent."""
        if name not in self._principals:
            self._principals[name] = self._host.units.run(lambda unit: origins.find(unit, name))
        return self._principals[name]

    def _failed(self, name: str, error: Exception) -> None:
        self._advanced.discard(name)
        failures = self._failures.setdefault(name, _Failures())
        failures.all += 1
        if is_transient(error) or isinstance(error, Cancelled | FencedOff):
            self._later(name, self._backoff.drawn(failures.all, self._host.randomness.uniform))
            _log.info("%s: %s waits: %s", self.name, name, error)
        else:
            _log.error("%s: %s could not be advanced", self.name, name, exc_info=error)
            now = self._host.clock.monotonic()
            if now - failures.counted_at >= self._every / 2:  # being woken often uses up no attempts
                failures.counted, failures.counted_at = failures.counted + 1, now
        final = failures.counted >= ATTEMPTS
        prefix = f"{GAVE_UP}{ATTEMPTS} attempts: " if final else RETRYING
        self._told(name, Trouble(prefix + _words(error), final))

    def _told(self, name: str, trouble: Trouble | None) -> None:
        try:
            self._host.units.run(lambda unit: self._tell(unit, name, trouble))
        except Deposed:
            raise
        except Exception as error:
            _log.log(
                logging.INFO if is_transient(error) else logging.ERROR,
                "%s: why %s is not advanced could not be recorded (%s)",
                self.name,
                name,
                trouble.reason if trouble else "it is",
                exc_info=error,
            )

    def _later(self, name: str, seconds: float) -> None:
        at = self._host.clock.monotonic() + seconds
        with self._lock:
            self._due[name] = min(at, self._due.get(name, at))


def _words(error: Exception) -> str:
    """The error for people: a problem says what was seen and expected, a defect needs its type too."""
    return str(error) if isinstance(error, Problem) or is_transient(error) else f"{type(error).__name__}: {error}"
