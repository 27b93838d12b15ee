"""Leadership: which of several replicas of a service works on what one alone should do.

Promises: the leader's lease is a row of the service's database and lapses by its clock; every new holder has a higher
term; whatever a led loop writes is fenced by the term in the same transaction; a leader that cannot renew stops its
loops before its lease lapses by its own monotonic clock; one that ends gives the lease up.
"""

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tutti.backbone import Clock, Isolation
from tutti.chassis.errors import is_transient
from tutti.chassis.identity.cause import Cause
from tutti.chassis.service import Loop
from tutti.chassis.store import wakes
from tutti.chassis.store.leases import NOBODY, Lease, Leases
from tutti.chassis.store.terms import Deposed, Term, under
from tutti.chassis.store.unit import Unit, Units

LEADER = "leader"
AT = "@"
"""In a holder, before the host and the process for people."""
INTERVAL_SECONDS = 0.5
LATE_SECONDS = 10.0
"""Without a leader for longer than this, nobody is able to take over."""
_log = logging.getLogger(__name__)


@runtime_checkable
class Wakeable(Protocol):
    """A led loop that is woken for names, in whichever replica that happens."""

    def lead(self) -> None:
        """A term of this replica begins: look at everything."""
        ...

    def follow(self) -> dict[str, Cause]:
        """Hand over the names that were woken while this replica does not lead."""
        ...

    def take_over(self, name: str, cause: Cause) -> None:
        """A name that another replica was woken for."""
        ...


@dataclass(frozen=True)
class Leader:
    """`who` is host:process, empty for nobody; `late`: seconds since its lease lapsed; `here`: it is this process."""

    who: str
    term: int
    late: float
    here: bool

    @property
    def works(self) -> bool:
        return bool(self.who) and self.late < LATE_SECONDS

    def __str__(self) -> str:
        if not self.who:
            return f"nobody leads since term {self.term}"
        if self.late:
            return f"the lease of {self.who} in term {self.term} lapsed {self.late:.0f} s ago"
        return f"{self.who}{' (this process)' if self.here else ''} leads in term {self.term}"


@dataclass(frozen=True)
class _Look:
    lease: Lease | None
    leader: "Leader | None"
    woken: list[tuple[str, str, Cause]]


class Leadership:
    """A Loop that holds the lease, or waits for it. `holder` is unique to this run of this service."""

    patient = True  # it waits for the database as long as that takes

    def __init__(self, units: Units, leases: Leases, *, holder: str, ttl: float, clock: Clock) -> None:
        self.name, self.interval = f"{units.service} leadership", min(INTERVAL_SECONDS, ttl / 5)
        self.woken = threading.Event()
        self.sole = False
        """No other process can have this database: the lease need not be renewed."""
        self._units, self._leases, self._holder, self._ttl, self._clock = units, leases, holder, ttl, clock
        self.seen = Leader("", 0, 0.0, here=False)
        """The leader when this replica last looked."""
        self._lease: Lease | None = None
        self._renewed_at = 0.0
        self._lock = threading.Lock()
        self._led: dict[str, Led] = {}

    def lead(self, loop: Loop) -> "Led":
        """The loop as it is stepped while this replica leads."""
        led = self._led[loop.name] = Led(loop, self)
        return led

    def term(self) -> Term | None:
        """The term of this replica now, by all that it knows; None while it does not lead."""
        with self._lock:
            lapsed = not self.sole and self._clock.monotonic() - self._renewed_at >= self._ttl
            lease = None if lapsed else self._lease
        return None if lease is None else Term(lease, self._units, self.lost)

    def lost(self, lease: Lease) -> None:
        """A write under this lease was refused."""
        with self._lock:
            if self._lease != lease:
                return
            self._lease = None
        _log.warning("%s: term %d is over, another replica leads", self.name, lease.epoch)
        self.woken.set()

    def step(self) -> bool:
        now = self._clock.monotonic()
        with self._lock:
            held, due = self._lease, now - self._renewed_at >= self._ttl / 3
        if held is not None and self.sole:
            return False
        try:
            found = self._units.run(lambda unit: self._look(unit, held, due=due), isolation=Isolation.READ_COMMITTED)
        except Exception as error:
            if not is_transient(error):
                raise
            _log.info("%s waits for its database: %s", self.name, error)
            return False
        self._found(found, held, now)
        return False

    def leader(self, unit: Unit) -> "Leader":
        """The leader as the row of the lease has it."""
        held = self._leases.held(unit, LEADER)
        if held is None or held.lease.holder == NOBODY:
            return Leader("", held.lease.epoch if held else 0, 0.0, here=False)
        lease = held.lease
        late = 0.0 if self.sole else max(0.0, -held.seconds_left)
        return Leader(lease.holder.rpartition(AT)[2], lease.epoch, late, here=lease.holder == self._holder)

    def forward(self, loop: str, names: dict[str, Cause]) -> None:
        """Forward names to the current leader."""
        self._units.run(lambda unit: wakes.put(unit, loop, names), isolation=Isolation.READ_COMMITTED)

    def release(self) -> None:
        """Give the lease up, so that another replica need not wait for it to lapse."""
        with self._lock:
            lease, self._lease = self._lease, None
        if lease is not None:
            self._units.run(lambda unit: self._leases.release(unit, lease), isolation=Isolation.READ_COMMITTED)

    def _look(self, unit: Unit, held: Lease | None, *, due: bool) -> _Look:
        renew = held is None or due
        lease = self._leases.acquire(unit, LEADER, self._holder, self._ttl) if renew else held
        loops = [] if lease is None else [name for name, led in self._led.items() if led.is_wakeable]
        leader = self.leader(unit) if renew else None
        return _Look(lease, leader, wakes.take(unit, loops) if loops and not self.sole else [])

    def _found(self, found: _Look, held: Lease | None, now: float) -> None:
        with self._lock:
            if found.leader is not None:
                self._renewed_at, self._lease, self.seen = now, found.lease, found.leader
        if found.lease is not None and found.lease != held:
            _log.info("%s: leads, term %d", self.name, found.lease.epoch)
            self._wake(self._led)
        elif found.lease is None and held is not None:
            _log.warning("%s: term %d is over, another replica leads", self.name, held.epoch)
        for loop, name, cause in found.woken:
            self._led[loop].take_over(name, cause)
        self._wake({loop for loop, _, _ in found.woken})

    def _wake(self, loops: Iterable[str]) -> None:
        for name in loops:
            self._led[name].woken.set()


class Led:
    """A Loop whose steps are the leader's alone."""

    def __init__(self, loop: Loop, leadership: Leadership) -> None:
        self.name = loop.name
        self.woken: threading.Event = getattr(loop, "woken", None) or threading.Event()
        self._loop, self._leadership = loop, leadership
        self._term: Term | None = None

    @property
    def interval(self) -> float:
        return self._loop.interval

    @property
    def is_wakeable(self) -> bool:
        return isinstance(self._loop, Wakeable)

    def take_over(self, name: str, cause: Cause) -> None:
        assert isinstance(self._loop, Wakeable)
        self._loop.take_over(name, cause)

    def step(self) -> bool:
        term = self._leadership.term()
        if term is None:
            self._term = None
            self._follow()
            return False
        if self._term is None or self._term.lease != term.lease:
            self._term = term
            if isinstance(self._loop, Wakeable):
                self._loop.lead()
        with under(term):
            try:
                return self._loop.step()
            except Deposed as deposed:
                _log.info("%s stops: %s", self.name, deposed)
                return False

    def _follow(self) -> None:
        if self._leadership.sole:
            return  # it leads at once, and keeps what it was woken for
        if isinstance(self._loop, Wakeable) and (names := self._loop.follow()):
            try:
                self._leadership.forward(self.name, names)
            except Exception:
                for name, cause in names.items():
                    self._loop.take_over(name, cause)  # to be forwarded by the next step
                raise
