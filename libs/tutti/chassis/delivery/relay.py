"""The relay: carries the outbox of one service to the event log.

Promises: one relay a service database works at a time (a lease); the revisions of a subject are published in order;
a row is marked only after it is durable in the log, under the lease; a zombie sends the same ids again, marks nothing.
"""

import logging
import threading

from tutti.backbone import EventLog, Isolation
from tutti.chassis.delivery import outbox
from tutti.chassis.delivery.outbox import Outgoing
from tutti.chassis.errors import FencedOff
from tutti.chassis.store.leases import Lease, Leases
from tutti.chassis.store.unit import Unit, Units

LEASE = "relay"
_log = logging.getLogger(__name__)


class Relay:
    """A Loop. `holder` is unique among the relays of this database."""

    def __init__(
        self,
        units: Units,
        log: EventLog,
        leases: Leases,
        *,
        holder: str,
        ttl: float = 15.0,
        batch: int = 1000,
        interval: float = 1.0,
    ) -> None:
        self.name = f"{units.service} relay"
        self.interval = interval
        self.woken = threading.Event()
        self._units, self._log, self._leases = units, log, leases
        self._holder, self._ttl, self._batch = holder, ttl, batch
        self._lease: Lease | None = None
        self._renewed_at = 0.0
        self._uncertain: tuple[int, list[Outgoing]] | None = None

    @property
    def uncertain(self) -> bool:
        """True if rows were sent, and it is not known yet whether the lease still held at that time."""
        return self._uncertain is not None

    def step(self) -> bool:
        lease, rows = self.take()
        if lease is None or not rows:
            return False
        self._uncertain = (lease.epoch, rows)
        self.publish(rows)
        self.mark(rows, lease)
        self._uncertain = None
        return True

    def take(self) -> tuple[Lease | None, list[Outgoing]]:
        """The lease, and what waits in the outbox; no lease: another relay works."""
        held, renewed_at = self._lease, self._renewed_at  # the unit may run again, so it changes nothing of ours

        def work(unit: Unit) -> tuple[Lease | None, float, list[Outgoing]]:
            if held is not None and unit.monotonic - renewed_at < self._ttl / 3:
                return held, renewed_at, outbox.unsent(unit, self._batch)
            lease = self._leases.acquire(unit, LEASE, self._holder, self._ttl)
            return lease, unit.monotonic, outbox.unsent(unit, self._batch) if lease is not None else []

        self._lease, self._renewed_at, rows = self._units.run(work, isolation=Isolation.READ_COMMITTED)
        lease = self._lease
        if self._uncertain is not None and (lease is None or lease.epoch != self._uncertain[0]):
            self._send_again(self._uncertain[1])
            self._uncertain = None
        elif not rows:
            self._uncertain = None  # they were marked after all, under the lease that still holds
        return lease, rows

    def publish(self, rows: list[Outgoing]) -> None:
        self._log.append([row.record for row in rows])

    def mark(self, rows: list[Outgoing], lease: Lease) -> None:
        try:
            self._units.run(lambda unit: outbox.mark_sent(unit, rows, lease), isolation=Isolation.READ_COMMITTED)
        except FencedOff:
            _log.warning("%s: lost its lease while publishing; another relay publishes again", self.name)
            self._lease = None
            self._send_again(rows)

    def release(self) -> None:
        """Give the lease up, so that another need not wait for it to lapse."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._units.run(lambda unit: self._leases.release(unit, lease), isolation=Isolation.READ_COMMITTED)

    def _send_again(self, rows: list[Outgoing]) -> None:
        """Whoever has the lease now may have sent newer snapshots before ours arrived."""
        self._units.run(lambda unit: outbox.send_newest_again(unit, rows), isolation=Isolation.READ_COMMITTED)
