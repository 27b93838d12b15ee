"""The sealer of a service's audit trail: a loop that writes new records into the next batch, and the verification.

Promises: a batch is a blob, which is written once; records of changes are sealed within seconds, others once their
minute is over, since they are counted until then; two copies of a service seal each batch once. The database has the
head of the chain, too. Before a batch is written, the newest one is compared with the head and with the records; where
they differ, nothing is sealed until somebody acknowledged the difference.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Select, delete, insert, select

from tutti.backbone import Blobs, Isolation
from tutti.backbone.blobs import BlobExists, BlobMissing
from tutti.chassis.errors import Refused, declare
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store import audit
from tutti.chassis.store.audit import CHANGED, MINUTE
from tutti.chassis.store.chains import HEAD, Difference, Examined, Head, examine, head_of, record_place, unsettled
from tutti.chassis.store.seals import FIRST, BadBatch, Batch, Row, decoded, key_of, row_digest
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit, Units
from tutti.records.canonical import content_digest

INTERVAL_SECONDS = 5.0
BLOCKED_STEPS = 60  # between two looks at copies that differ, unless the database says that something changed
PAGE = 500
"""The most records of a batch."""
LOOK = 200
"""The number of records that are read together, the newest first, in the search for new ones."""
KNOWN = 10_000
"""Records at the end of the chain that are compared when a process starts."""
REMEMBERED = LOOK
"""The number of sealed records that are kept in memory, the newest: the search for new ones ends where it finds one."""
_COLUMNS = (
    "seq", "at", "user", "tenant", "method", "action", "resource", "revision", "outcome", "reason", "address", "times"
)  # fmt: skip
ACKNOWLEDGE = "tutti.audit.acknowledge"
OTHER_DIFFERENCES = "OTHER_DIFFERENCES"
declare({OTHER_DIFFERENCES: "the audit trail does not have the differences that were to be acknowledged"})
_PLACE = "head"
Seals = frozenset[tuple[str, str]]
"""Place and digest of each row of `audit_seals`."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """`head` is the number and digest of the newest batch: whoever wrote an earlier one down can look for it in the
    chain. `differences` are those that were not acknowledged, and `problems` all reasons why the trail does not hold.
    """

    batches: int
    records: int
    unsealed: int
    head: str
    problems: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    acknowledged: int = 0


class Sealer:
    """A Loop."""

    def __init__(self, units: Units, blobs: Blobs, retention: timedelta) -> None:
        self.name, self.interval = f"{units.service} audit sealer", INTERVAL_SECONDS
        self._units, self._blobs, self._retention = units, blobs, retention
        self._head: Head | None = None
        """of the chain that was compared; None if it has to be compared anew"""
        self._newest: Batch | None = None
        self._known: dict[str, int] = {}
        self._sealed: dict[int, str] = {}
        self._counted: frozenset[int] = frozenset()
        """The numbers of records that were still counted: others that came since may lie before them."""
        self._seen: int | None = None
        self._blocked_by: Seals | None = None
        self._skipped = 0
        self.trouble = ""
        """The reason why nothing is sealed; empty if records are."""

    @property
    def remembered(self) -> int:
        """The number of sealed records that are kept in memory."""
        return len(self._known)

    def step(self) -> bool:
        if self.trouble and not self._looks_again():
            return False
        newest = self._units.run(_newest, isolation=Isolation.READ_COMMITTED)
        if newest == self._seen and not self.trouble:
            return False
        if not (self._head and self._unchanged(self._head)) and not self._prepared():
            return False
        fresh, counted = self._units.run(self._unsealed, isolation=Isolation.READ_COMMITTED)
        if any(self._sealed.get(int(row["seq"])) for row in fresh):
            self._head = None  # a sealed record was changed: compare, and name it
            return False
        for begin in range(0, len(fresh), PAGE):
            if not self._seal(fresh[begin : begin + PAGE]):
                self._head = None
                return True  # another copy sealed something: look again
        self._counted, self._seen = counted, None if counted else newest
        return False

    def _looks_again(self) -> bool:
        """True if a difference may be settled: somebody acknowledged it, or some time has passed."""
        self._skipped += 1
        seals = self._units.run(_seals, isolation=Isolation.READ_COMMITTED)
        return seals != self._blocked_by or self._skipped >= BLOCKED_STEPS

    def _unchanged(self, head: Head) -> bool:
        """True if the newest batch is the head, in the store and in the database, and its records are as sealed."""
        newest = self._newest
        if newest is None:
            return False
        try:
            data = self._blobs.get(key_of(self._units.service, newest.number))
        except BlobMissing:
            return False

        def compare(unit: Unit) -> bool:
            since = micros(unit.now - self._retention)
            there = {row["seq"]: row for row in _rows_of(unit, [int(row["seq"]) for row in newest.rows])}
            fit = all(int(row["at"]) < since or there.get(row["seq"]) == row for row in newest.rows)
            return fit and _head(_seals(unit)) == head

        return data == newest.encoded() and self._units.run(compare, isolation=Isolation.READ_COMMITTED)

    def _prepared(self) -> bool:
        """Compare the end of the chain with the database; False if they differ, or another copy moves the head now."""
        service = self._units.service
        seals = self._units.run(_seals, isolation=Isolation.READ_COMMITTED)  # first: the chain is never behind its head
        chain, begin = self._end_of_chain()
        first = min((int(row["seq"]) for row in _sealed_rows(chain)), default=0)

        def read(unit: Unit) -> tuple[list[Row], int]:
            return _rows_from(unit, first), micros(unit.now - self._retention)

        rows, since = self._units.run(read, isolation=Isolation.READ_COMMITTED)
        found = examine(service, chain, rows, _head(seals), since, first=begin)
        self._head = None
        if differences := unsettled(found, seals):
            self._block(differences, seals)
            return False
        self._blocked_by, self.trouble = None, ""
        acknowledged = {place for place, _ in seals}
        self._known, self._sealed = {}, {}
        for batch in found.batches:
            self._remember(batch, acknowledged)
        head = _head(seals) or Head()
        self._newest = next((each for each in found.batches if each.number == found.newest.number), None)
        # Behind the head: sealed when a process ended, or by an earlier version.
        if found.newest == head or self._moved(head, found.newest):
            self._head = found.newest
        return self._head is not None

    def _block(self, differences: Sequence[Difference], seals: Seals) -> None:
        if self._blocked_by != seals:
            for each in differences:
                _log.error("%s", each.message)
        self._blocked_by, self._skipped = seals, 0
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        self.trouble = (
            f"{differences[0].message}{more}; no record is sealed until this is restored, or acknowledged with `tutti "
            f"audit acknowledge {self._units.service}`"
        )

    def _end_of_chain(self) -> tuple[list[tuple[int, bytes]], int]:
        """The newest batches, with KNOWN records if there are as many, and the number of the first of them."""
        service, count = self._units.service, 0
        found: list[tuple[int, bytes]] = []
        for number in reversed(_numbers(self._blobs, service)):
            found.append((number, self._blobs.get(key_of(service, number))))
            count += len(_sealed_rows(found[-1:]))
            if count >= KNOWN and len(found) > 1:
                return found[::-1], number
        return found[::-1], FIRST

    def _seal(self, rows: list[Row]) -> bool:
        assert self._head is not None
        service, head = self._units.service, self._head
        batch = Batch(service, head.number + 1, head.digest, tuple(rows))
        try:
            self._blobs.put_if_absent(key_of(service, batch.number), batch.encoded())
        except BlobExists:
            return False
        after = Head(batch.number, batch.digest)
        if not self._moved(head, after):
            return False
        self._head, self._newest = after, batch
        self._remember(batch, ())
        return True

    def _moved(self, before: Head, after: Head) -> bool:
        """Move the head in the database; False if another copy did."""

        def move(unit: Unit) -> bool:
            if (_head(_seals(unit)) or Head()) != before:
                return False
            _set_head(unit, after)
            return True

        return self._units.run(move)

    def _remember(self, batch: Batch, acknowledged: Collection[str]) -> None:
        for row in batch.rows:
            digest, seq = row_digest(row), int(row["seq"])
            self._known[digest] = seq
            if record_place(batch.number, row) not in acknowledged:
                self._sealed[seq] = digest
        if len(self._known) > 2 * REMEMBERED:
            newest = sorted(self._known.items(), key=lambda known: known[1])[-REMEMBERED:]
            first = newest[0][1]
            self._known = dict(newest)
            self._sealed = {seq: digest for seq, digest in self._sealed.items() if seq >= first}

    def _unsealed(self, unit: Unit) -> tuple[list[Row], frozenset[int]]:
        """Records that no batch has, in their order, and the numbers of those that are still counted."""
        found: dict[int, Row] = {}
        before = None
        while page := _page(unit, before):
            new = {int(row["seq"]): row for row in page if row_digest(row) not in self._known}
            found |= new
            if len(new) < len(page):
                break
            before = page[-1]["seq"]
        for row in _rows_of(unit, sorted(self._counted - found.keys())):
            if row_digest(row) not in self._known:
                found[int(row["seq"])] = row
        final = [found[seq] for seq in sorted(found) if _is_final(found[seq], micros(unit.now))]
        return final, frozenset(found.keys() - {int(row["seq"]) for row in final})


def verify(units: Units, blobs: Blobs, retention: timedelta, expected: str = "") -> Verdict:
    """Read the whole chain and compare it with the database, and with an earlier head of it.

    Raises BlobError, DatabaseError.
    """
    found, seals, rows = _examined(units, blobs, retention)
    differences = unsettled(found, seals)
    sealed = {row_digest(row) for batch in found.batches for row in batch.rows}
    problems = [each.message for each in differences]
    if expected and not any(str(Head(batch.number, batch.digest)) == expected for batch in found.batches):
        problems.append(f"the chain has no batch {expected}: it was removed, or the whole chain was written anew")
    return Verdict(
        batches=len(found.batches),
        records=sum(len(batch.rows) for batch in found.batches),
        unsealed=sum(row_digest(row) not in sealed for row in rows),
        head=str(found.newest),
        problems=tuple(problems),
        differences=differences,
        acknowledged=len(found.differences) - len(differences),
    )


def acknowledge(
    units: Units, blobs: Blobs, retention: timedelta, principal: Principal, digest: str
) -> tuple[Difference, ...]:
    """Record who knows of these differences, so that sealing goes on, and return them.

    `digest` is that of the verdict which found them. Raises Refused if they are others now, or there are none.
    """
    found, seals, _ = _examined(units, blobs, retention)
    differences = unsettled(found, seals)
    if not differences or digest_of(differences) != digest:
        raise Refused(
            OTHER_DIFFERENCES,
            f"the audit trail of {units.service} does not have the differences of {digest!r} now: look at them again "
            f"with `tutti audit acknowledge {units.service}`",
        )

    def write(unit: Unit) -> None:
        for each in differences:
            if each.place != HEAD:  # which is set below
                unit.tx.execute(insert(unit.tables.audit_seals), {"place": each.place, "digest": each.digest})
            audit.changed(unit, principal, ACKNOWLEDGE, f"audit/{units.service}/{each.place}")
        _set_head(unit, found.newest)

    units.run(write)
    return differences


def digest_of(differences: Sequence[Difference]) -> str:
    """The digest of these differences; empty for none."""
    pairs = [{"place": each.place, "digest": each.digest} for each in differences]
    return content_digest({"differences": pairs}, kind=ACKNOWLEDGE) if pairs else ""


def _examined(units: Units, blobs: Blobs, retention: timedelta) -> tuple[Examined, Seals, list[Row]]:
    service = units.service
    # In this order: the chain is never behind its head, and a record is in the database before it is sealed.
    seals = units.run(_seals, isolation=Isolation.READ_COMMITTED)
    chain = [(number, blobs.get(key_of(service, number))) for number in _numbers(blobs, service)]

    def read(unit: Unit) -> tuple[list[Row], int]:
        return _rows_from(unit, 0), micros(unit.now - retention)

    rows, since = units.run(read, isolation=Isolation.READ_COMMITTED)
    return examine(service, chain, rows, _head(seals), since), seals, rows


def _seals(unit: Unit) -> Seals:
    return frozenset((row.place, row.digest) for row in unit.tx.execute(select(unit.tables.audit_seals)).all())


def _head(seals: Seals) -> Head | None:
    return next((head_of(digest) for place, digest in seals if place == _PLACE), None)


def head_in(file: Path) -> int:
    """The number of the newest batch by the SQLite copy of a database; 0 for none."""
    with closing(sqlite3.connect(file)) as database:
        try:
            found = database.execute("SELECT digest FROM audit_seals WHERE place = ?", (_PLACE,)).fetchone()
        except sqlite3.Error:
            return 0  # of an earlier version
    return head_of(str(found[0])).number if found else 0


def _set_head(unit: Unit, head: Head) -> None:
    table = unit.tables.audit_seals
    unit.tx.execute(delete(table).where(table.c.place == _PLACE))
    unit.tx.execute(insert(table), {"place": _PLACE, "digest": str(head)})


def _sealed_rows(chain: Sequence[tuple[int, bytes]]) -> list[Row]:
    """The records of all batches that can be read."""
    found: list[Row] = []
    for _, data in chain:
        with contextlib.suppress(BadBatch):
            found += decoded(data).rows
    return found


def _numbers(blobs: Blobs, service: str) -> list[int]:
    return [int(stat.key.rpartition("/")[2]) for stat in blobs.list(f"audit/{service}/")]


def _newest(unit: Unit) -> int:
    """The number of the newest record; 0 for none."""
    table = unit.tables.audit
    return int(unit.tx.execute(select(table.c.seq).order_by(table.c.seq.desc()).limit(1)).scalar() or 0)


def _page(unit: Unit, before: Any) -> list[Row]:
    table = unit.tables.audit
    query = select(table).order_by(table.c.seq.desc()).limit(LOOK)
    return _read(unit, query if before is None else query.where(table.c.seq < before))


def _rows_from(unit: Unit, first: int) -> list[Row]:
    table = unit.tables.audit
    return _read(unit, select(table).where(table.c.seq >= first).order_by(table.c.seq))


def _rows_of(unit: Unit, numbers: Sequence[int]) -> list[Row]:
    table = unit.tables.audit
    return _read(unit, select(table).where(table.c.seq.in_(numbers)))


def _read(unit: Unit, query: Select[Any]) -> list[Row]:
    return [{name: row[name] for name in _COLUMNS} for row in audit.read(unit, query)]


def _is_final(row: Row, now: int) -> bool:
    """True if a record does not change any more: all but changes are counted until their minute is over."""
    return row["outcome"] == CHANGED or (isinstance(row["at"], int) and row["at"] // MINUTE < now // MINUTE)
