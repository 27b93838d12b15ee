"""Scrubs: the row in which a service keeps the scrub that runs and the last one that ended.

Promises: only the holder of the lease writes how far a scrub is; one that was interrupted goes on behind the last thing
that it had read whole, with all that it had found. A row holds a bounded number of messages.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from tutti.backbone.database import Conflict
from tutti.chassis.store.leases import Lease
from tutti.chassis.store.tables import micros

if TYPE_CHECKING:
    from tutti.chassis.store.unit import Unit

LEASE = "scrub"
MOST = 100
"""Damages, and repairs, that are kept in words."""
_NAME = "scrub"
_OF_SETTINGS = -1


@dataclass(frozen=True)
class Damage:
    """`what` is the key of a blob, the id of an event or the name of the phase that found it. `missing`: a blob that is
    gone, perhaps because somebody deleted it."""

    phase: str
    what: str
    message: str
    missing: bool = False
    expected: str = ""
    """The digest that the blob should have; empty for anything else."""


@dataclass(frozen=True)
class Looked:
    """One look of a scrub: `read` bytes were read now, and the counts are of things that were read whole.

    `after` is the place behind which a later scrub may go on; None within a thing. `pause`: nothing is to be seen for
    so many seconds. `instead` takes the place of all damages so far.
    """

    read: int = 0
    rows: int = 0
    records: int = 0
    blobs: int = 0
    bytes: int = 0
    unstated: int = 0
    total: int = 0
    damages: tuple[Damage, ...] = ()
    repaired: tuple[str, ...] = ()
    instead: tuple[Damage, ...] | None = None
    after: str | None = None
    pause: float = 0.0


@dataclass(frozen=True)
class Scrub:
    """Times in microseconds, 0 for none; `rate` in bytes a second, 0 for no limit.

    `unstated` things have no digest to compare with. `total` blobs are there, known once they are listed. `more`
    damages are not among the `damaged`.
    """

    began_at: int
    rate: int
    ended_at: int = 0
    phase: str = ""
    after: str = ""
    rows: int = 0
    records: int = 0
    blobs: int = 0
    bytes: int = 0
    unstated: int = 0
    total: int = 0
    damaged: tuple[Damage, ...] = ()
    more: int = 0
    repaired: tuple[str, ...] = ()

    @property
    def damages(self) -> int:
        """The number of damages, named or not."""
        return len(self.damaged) + self.more

    def with_look(self, looked: Looked) -> "Scrub":
        """The scrub after one more look."""
        damaged = (*(self.damaged if looked.instead is None else looked.instead), *looked.damages)
        return replace(
            self,
            after=self.after if looked.after is None else looked.after,
            rows=self.rows + looked.rows,
            records=self.records + looked.records,
            blobs=self.blobs + looked.blobs,
            bytes=self.bytes + looked.bytes,
            unstated=self.unstated + looked.unstated,
            total=looked.total or self.total,
            damaged=damaged[:MOST],
            more=self.more + len(damaged[MOST:]),
            repaired=(*self.repaired, *looked.repaired)[:MOST],
        )


@dataclass(frozen=True)
class Kept:
    """`since` when there is a row; `asked_at`: when somebody asked for a scrub that has not ended yet, 0 if nobody did;
    `rate` is the one that was asked for, None for that of the settings. Times in microseconds."""

    since: int
    asked_at: int
    rate: int | None
    running: Scrub | None
    last: Scrub | None

    def due_at(self, every: int) -> int | None:
        """When a scrub is due that nobody asked for, `every` so many microseconds; None for never."""
        return (self.last.ended_at if self.last else self.since) + every if every else None

    def is_due(self, now: int, every: int) -> bool:
        due_at = self.due_at(every)
        return self.running is not None or self.asked_at > 0 or (due_at is not None and now >= due_at)


def read(unit: "Unit") -> Kept:
    """Read the row, which is made where there is none."""
    table = unit.tables.scrubs
    row = unit.tx.execute(select(table).where(table.c.name == _NAME)).first()
    if row is None:
        new = {"name": _NAME, "since": micros(unit.now), "asked_at": 0, "rate": _OF_SETTINGS, "running": "", "last": ""}
        with contextlib.suppress(Conflict):
            unit.tx.savepoint(lambda: unit.tx.execute(insert(table), new))
        row = unit.tx.execute(select(table).where(table.c.name == _NAME)).one()
    rate = None if row.rate == _OF_SETTINGS else int(row.rate)
    return Kept(int(row.since), int(row.asked_at), rate, _decoded(row.running), _decoded(row.last))


def ask(unit: "Unit", rate: int | None) -> int:
    """Ask for a scrub, or for what is left of the one that runs, at this rate; the time of the request."""
    read(unit)
    at = micros(unit.now)
    _write(unit, asked_at=at, rate=_OF_SETTINGS if rate is None else rate)
    return at


def save(unit: "Unit", lease: Lease, scrub: Scrub) -> int:
    """Write how far the scrub is; the rate at which it goes on. Raises FencedOff."""
    unit.fence(lease)
    _write(unit, running=_encoded(scrub))
    asked = read(unit).rate
    return scrub.rate if asked is None else asked


def end(unit: "Unit", lease: Lease, scrub: Scrub) -> None:
    """Write down what came of the scrub. Raises FencedOff."""
    unit.fence(lease)
    ended = replace(scrub, ended_at=micros(unit.now), phase="", after="")
    _write(unit, running="", last=_encoded(ended), asked_at=0, rate=_OF_SETTINGS)


def _write(unit: "Unit", **values: Any) -> None:
    table = unit.tables.scrubs
    unit.tx.execute(update(table).where(table.c.name == _NAME).values(values))


def _encoded(scrub: Scrub) -> str:
    return json.dumps(asdict(scrub))


def _decoded(text: str) -> Scrub | None:
    if not text:
        return None
    found: Mapping[str, Any] = json.loads(text)
    damaged = tuple(Damage(**each) for each in found["damaged"])
    return Scrub(**{**found, "damaged": damaged, "repaired": tuple(found["repaired"])})
