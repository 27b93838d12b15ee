"""The scrubber: reads what the services of this process stored back, in time, and has damaged results made again.

Promises: one copy of a service scrubs at a time, under a lease; no more is read than the rate allows; a scrub that was
interrupted goes on behind the last thing that it had read whole; a store that stays away is named, and the rest read.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from tutti.backbone import EventLog, Isolation
from tutti.chassis.config.sections import ScrubSettings
from tutti.chassis.config.settings import AGENT
from tutti.chassis.delivery import outbox
from tutti.chassis.errors import CorruptRow, FencedOff, is_transient
from tutti.chassis.events.catalog import topics_of
from tutti.chassis.runtime.parts import emitted
from tutti.chassis.service import Finding
from tutti.chassis.store import auditseals
from tutti.chassis.store.leases import Lease, Leases
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import from_micros, micros
from tutti.chassis.store.unit import Unit, Units
from tutti.upkeep import readback, scrub, scrubs
from tutti.upkeep.examination import Administered
from tutti.upkeep.remaking import remade
from tutti.upkeep.scrubs import LEASE, Damage, Kept, Looked, Scrub

LOOK_SECONDS = 30.0
SAVE_SECONDS = 1.0
SHORTEST_WAIT = 0.02
PATIENCE = 20
"""Attempts of a store that is away, until the scrub goes on without it."""
PHASES = ROWS, AUDIT, RECORDS, BLOBS, REPAIRS = "rows", "audit trail", readback.RECORDS, scrub.BLOBS, "repairs"
MEBI = 1 << 20
DAY = 24 * 3600 * 1_000_000
_log = logging.getLogger(__name__)


class Scrubber:
    """A Loop that scrubs the services of this process, one after another."""

    name = "scrubber"
    patient = True

    def __init__(
        self, services: Sequence[Administered], log: EventLog, settings: ScrubSettings, *, holder: str, ttl: float
    ) -> None:
        self.woken, self.interval = threading.Event(), LOOK_SECONDS
        self.every = int(settings.every_days * DAY)
        self._turns = deque(_Scrubbed(each, log, settings, self.every, holder, ttl) for each in services)
        self._running: _Scrubbed | None = None
        self._asked = False

    def step(self) -> bool:
        running, self._running = self._running or self._next(), None  # after an error it is another one's turn
        if running is None:
            self.interval = LOOK_SECONDS
            return False
        try:
            if self._asked:
                self._asked = False
                running.follow_rate()
            wait = running.step()
        except FencedOff as lost:
            _log.info("%s: another copy goes on with a scrub: %s", self.name, lost)
            return False
        if wait is None:
            return True
        self._running, self.interval = running, wait
        return wait == 0

    def wake(self) -> None:
        """Look for what somebody asked for."""
        self._asked = True
        self.woken.set()

    def close(self) -> None:
        """Give the leases up, so that another copy need not wait."""
        for each in self._turns:
            each.release()

    def _next(self) -> "_Scrubbed | None":
        for _ in range(len(self._turns)):
            self._turns.rotate(-1)
            if self._turns[-1].begin():
                return self._turns[-1]
        return None


class _Scrubbed:
    """One service and its scrub."""

    def __init__(
        self, each: Administered, log: EventLog, settings: ScrubSettings, every: int, holder: str, ttl: float
    ) -> None:
        self._service, self._parts = each.service, each.parts
        self._units, self._blobs, self._log = each.host.units, each.host.blobs, log
        self._leases = Leases(each.host.metadata)
        self._settings, self._every, self._holder, self._ttl = settings, every, holder, ttl
        self._lease: Lease | None = None
        self._looks: Iterator[Looked] | None = None
        self._renewed_at = self._saved_at = self._free_at = 0.0
        self._failures = 0

    def begin(self) -> bool:
        """Begin a scrub that is due, or go on with one, unless another copy does."""

        def work(unit: Unit) -> tuple[Lease, Scrub] | None:
            kept = scrubs.read(unit)
            if not kept.is_due(micros(unit.now), self._every):
                return None
            lease = self._leases.acquire(unit, LEASE, self._holder, self._ttl)
            if lease is None:
                return None
            rate = int(self._settings.mebibytes_per_second * MEBI) if kept.rate is None else kept.rate
            begun = kept.running or Scrub(micros(unit.now), rate, phase=PHASES[0])
            going = replace(begun, rate=scrubs.save(unit, lease, begun))
            return lease, going

        begun = self._units.run(work, isolation=Isolation.READ_COMMITTED)
        if begun is None:
            return False
        self._lease, self._scrub = begun
        self._looks = None
        self._renewed_at = self._saved_at = self._free_at = self._units.clock.monotonic()
        return True

    def step(self) -> float | None:
        """Take one look; the seconds until the next one may be taken, None when the scrub is over. Raises FencedOff."""
        now = self._units.clock.monotonic()
        if now - self._renewed_at >= self._ttl / 3:
            self._renew(now)
        if now + SHORTEST_WAIT < self._free_at:
            return min(self._free_at - now, self._ttl / 3)
        looks = self._looks = self._looks or self._looked()
        try:
            looked = next(looks, None)
        except Exception as error:
            looked = self._failed(error)
        if looked is None:
            return self._end_phase(now)
        self._scrub = self._scrub.with_look(looked)
        for damage in looked.damages:
            _log.error("%s: a scrub found damage: %s", self._service.name, damage.message)
        if looked.read and self._scrub.rate:
            self._free_at = max(now, self._free_at) + looked.read / self._scrub.rate
        if looked.after is not None:
            self._failures = 0
            if now - self._saved_at >= SAVE_SECONDS:
                self._save(now)
        left = self._free_at - self._units.clock.monotonic()
        return looked.pause or (min(left, self._ttl / 3) if left > SHORTEST_WAIT else 0.0)

    def follow_rate(self) -> None:
        """Go on at the rate that somebody asked for meanwhile."""
        kept = self._units.run(scrubs.read, isolation=Isolation.READ_COMMITTED)
        if kept.rate is not None:
            self._scrub, self._free_at = replace(self._scrub, rate=kept.rate), self._units.clock.monotonic()

    def release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._units.run(lambda unit: self._leases.release(unit, lease), isolation=Isolation.READ_COMMITTED)

    def _renew(self, now: float) -> None:
        lease = self._held()
        self._units.run(lambda unit: self._leases.renew(unit, lease, self._ttl), isolation=Isolation.READ_COMMITTED)
        self._renewed_at = now

    def _save(self, now: float) -> None:
        lease, seen = self._held(), self._scrub
        rate = self._units.run(lambda unit: scrubs.save(unit, lease, seen), isolation=Isolation.READ_COMMITTED)
        self._scrub, self._saved_at = replace(seen, rate=rate), now

    def _end_phase(self, now: float) -> float | None:
        following = PHASES.index(self._scrub.phase) + 1
        self._looks, self._failures = None, 0
        if following < len(PHASES):
            self._scrub = replace(self._scrub, phase=PHASES[following], after="")
            self._save(now)
            return 0.0
        lease, ended = self._held(), self._scrub
        self._units.run(lambda unit: scrubs.end(unit, lease, ended), isolation=Isolation.READ_COMMITTED)
        _log.info("%s: a scrub ended: %s", self._service.name, in_words(ended))
        self.release()
        return None

    def _held(self) -> Lease:
        if self._lease is None:
            raise FencedOff(f"the scrub of {self._service.name} was given up")
        return self._lease

    def _failed(self, error: Exception) -> Looked:
        """A damage, once patience ends; the rest of the phase is left out. Raises the error before."""
        self._looks = None
        if isinstance(error, FencedOff):
            raise error
        if is_transient(error) and self._failures < PATIENCE:
            self._failures += 1
            raise error
        _log.exception("%s: a scrub cannot go on with %s", self._service.name, self._scrub.phase)
        self._looks = iter(())
        phase = self._scrub.phase
        return Looked(damages=(Damage(phase, phase, f"{phase}: they cannot be read back: {error}"),))

    def _looked(self) -> Iterator[Looked]:
        after, units, repairs = self._scrub.after, self._units, self._settings.repair
        if self._scrub.phase == ROWS:
            return self._rows(after)
        if self._scrub.phase == AUDIT:
            return self._audit()
        if self._scrub.phase == RECORDS:
            topics = topics_of(emitted(self._service))
            return readback.look(self._log, topics, self._send_again if repairs else None, after)
        if self._scrub.phase == BLOBS:
            return self._read_blobs(after)
        return remade(units, self._blobs, self._service.remakes if repairs else (), self._scrub)

    def _rows(self, after: str) -> Iterator[Looked]:
        for kind in sorted(self._service.resources, key=lambda each: each.kind):
            if kind.kind > after:
                count, damaged = _rows_of(self._units, kind)
                damages = tuple(Damage(ROWS, kind.kind, each) for each in damaged)
                yield Looked(rows=count, damages=damages, after=kind.kind)

    def _audit(self) -> Iterator[Looked]:
        found = auditseals.verify(self._units, self._blobs, self._parts.retention.audit)
        advice = "restore what is missing from a backup; `tutti audit verify` tells more"
        damages = tuple(Damage(AUDIT, AUDIT, f"{each}; {advice}") for each in found.problems)
        yield Looked(damages=damages)

    def _read_blobs(self, after: str) -> Iterator[Looked]:
        try:
            condemned = self._units.run(lambda unit: tuple(self._service.condemned(unit)))
        except CorruptRow:
            condemned = ()  # the phase of rows named it
        for looked in scrub.look(self._blobs, f"{self._service.name}/", self._belongs, after):
            yield replace(looked, damages=tuple(each for each in looked.damages if not each.what.startswith(condemned)))

    def _send_again(self, event_id: str) -> bool:
        sent = self._units.run(lambda unit: outbox.send_again(unit, event_id), isolation=Isolation.READ_COMMITTED)
        self._parts.relay.woken.set()
        return sent

    def _belongs(self, key: str) -> bool:
        """True for a blob that this service checks: its own, and those of agents that it may read."""
        return key.startswith((f"{self._service.name}/", f"{AGENT}/")) and self._service.blob_rights().may_read(key)


def finding(kept: Kept, every: int) -> Finding:
    """The finding of the doctor about the scrubs of a service; `every` so many microseconds one begins, 0 for never."""
    last = kept.last
    if last is None:
        due = kept.due_at(every)
        first = f"the first scrub begins at {_time(due)}" if due else "`tutti scrub` reads everything"
        words = f"nothing was read back yet; {first}"
    else:
        words = in_words(last) + f" at {_time(last.ended_at)}"
    if kept.running is not None:
        words += f"; one is running since {_time(kept.running.began_at)}: {kept.running.phase}"
        words += f", {kept.running.blobs:,} of {kept.running.total:,} blobs" if kept.running.total else ""
    if last is not None and last.damages:
        words += f"; the first: {last.damaged[0].message}; `tutti scrub --last` shows all"
    return Finding("scrub", last is None or not last.damages, words)


def in_words(last: Scrub) -> str:
    """The counts of a scrub."""
    words = f"{last.rows:,} rows, {last.records:,} log records and {last.blobs:,} blobs were read back"
    words += f", {last.damages:,} are damaged" if last.damages else ""
    return words + (f", {len(last.repaired):,} were repaired" if last.repaired else "")


def _rows_of(units: Units, kind: Resource[Any]) -> tuple[int, list[str]]:
    """The number of rows of a kind, and what is wrong with those that are damaged."""

    def read(unit: Unit) -> tuple[int, list[str]]:
        count = unit.tx.execute(select(func.count()).select_from(kind.table)).scalar_one()
        return int(count), kind.damaged(unit)

    return units.run(read)


def _time(at: int) -> str:
    return from_micros(at).isoformat(timespec="seconds")
