"""Leases: who may do a thing, until when; a row in the database of what it guards.

Promises: the epoch of a lease grows with every new holder; `unit.fence(lease)` writes under the lease or refuses; a
lease lapses by the database's clock on a server, elsewhere by monotonic time counted only while its observer was up.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import MetaData, Select, Table, bindparam, insert, select, update

from tutti.backbone.database import Conflict
from tutti.chassis.errors import FencedOff
from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import micros, tables_of

if TYPE_CHECKING:
    from tutti.chassis.store.unit import Unit

NOBODY = ""


@dataclass(frozen=True)
class Lease:
    name: str
    holder: str
    epoch: int


@dataclass(frozen=True)
class Held:
    """`seconds_left` until it lapses by the database's clock; a lease of NOBODY was given up."""

    lease: Lease
    seconds_left: float


class Observer:
    """Sees claims lapse: those of a server by its clock, others when they did not change while it watched."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}

    def lapsed(self, unit: "Unit", key: str, row: Any) -> bool:
        """`row` has `epoch renewals ttl expires_at`; ttl and expires_at in microseconds."""
        if unit.tx.skip_locked:
            return bool(row.expires_at <= micros(unit.now))
        mark = (row.epoch, row.renewals)
        seen, since = self._seen.get(key, (None, 0.0))
        if seen != mark:
            self._seen[key] = (mark, unit.monotonic)
            return False
        return bool(unit.monotonic - since >= row.ttl / 1_000_000)

    def forget(self, keep: set[str]) -> None:
        """Drop what was seen of all keys but these."""
        for key in self._seen.keys() - keep:
            del self._seen[key]


class Leases:
    def __init__(self, metadata: MetaData) -> None:
        self._table = tables_of(metadata).leases
        self._observer = Observer()

    def acquire(self, unit: "Unit", name: str, holder: str, ttl: float) -> Lease | None:
        """The lease, or None while another holds it. The holder itself gets the same epoch again."""
        table = self._table
        row = unit.tx.execute(_read(table), {"wanted": name}).first()
        if row is not None:
            if self._is_taken(unit, name, row, holder):
                return None  # without a lock: followers look often
            row = unit.tx.execute(_locked(table), {"wanted": name}).first()
        if row is None:
            new = {"name": name, "holder": holder, "epoch": 1, "renewals": 0, **_until(unit, ttl)}
            try:
                unit.tx.savepoint(lambda: unit.tx.execute(insert(table), new))
            except Conflict:
                return None
            return Lease(name, holder, 1)
        if self._is_taken(unit, name, row, holder):
            return None
        epoch = int(row.epoch) + (0 if row.holder == holder else 1)
        unit.tx.execute(
            update(table)
            .where(table.c.name == name)
            .values(holder=holder, epoch=epoch, renewals=row.renewals + 1, **_until(unit, ttl))
        )
        return Lease(name, holder, epoch)

    def renew(self, unit: "Unit", lease: Lease, ttl: float) -> None:
        """Raises FencedOff when it was lost."""
        changed = unit.tx.execute(
            update(self._table)
            .where(*self._held(lease))
            .values(renewals=self._table.c.renewals + 1, **_until(unit, ttl))
        )
        if changed.rowcount != 1:
            raise FencedOff(f"the lease {lease.name} of {lease.holder} (epoch {lease.epoch}) went to another holder")

    def release(self, unit: "Unit", lease: Lease) -> None:
        """Give it up; silent when it was lost."""
        unit.tx.execute(update(self._table).where(*self._held(lease)).values(holder=NOBODY))

    def vacate(self, unit: "Unit", name: str = "", *, of: str = "") -> None:
        """Release leases whose holders are gone: all, since the database is the caller's alone, or the lease `name` of
        holders of the instance `of`, since the caller is that instance now."""
        columns = self._table.c
        theirs = (columns.name == name, columns.holder.startswith(f"{of}/", autoescape=True)) if of else ()
        unit.tx.execute(update(self._table).where(*theirs).values(holder=NOBODY))

    def held(self, unit: "Unit", name: str) -> "Held | None":
        """The holder of a lease as its row has it; None for a lease that nobody ever held."""
        row = unit.tx.execute(_read(self._table), {"wanted": name}).first()
        if row is None:
            return None
        left = (row.expires_at - micros(unit.now)) / 1_000_000
        return Held(Lease(name, row.holder, int(row.epoch)), left)

    def _is_taken(self, unit: "Unit", name: str, row: Any, holder: str) -> bool:
        return row.holder not in (holder, NOBODY) and not self._observer.lapsed(unit, name, row)

    def _held(self, lease: Lease) -> tuple[Any, ...]:
        columns = self._table.c
        return columns.name == lease.name, columns.holder == lease.holder, columns.epoch == lease.epoch


@prepared
def _read(table: Table) -> Select[Any]:
    return select(table).where(table.c.name == bindparam("wanted"))


@prepared
def _locked(table: Table) -> Select[Any]:
    return select(table).where(table.c.name == bindparam("wanted")).with_for_update()


def _until(unit: "Unit", ttl: float) -> dict[str, int]:
    span = int(ttl * 1_000_000)
    return {"ttl": span, "expires_at": micros(unit.now) + span}
