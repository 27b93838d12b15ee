"""The sealer of a service's audit trail: a loop that writes new records into the next batch, and the verification.

Promises: a batch is a blob, which is written once; records of changes are sealed within seconds, others once their
minute is over, since they are counted until then; two copies of a service seal each batch once.
"""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from tutti.backbone import Blobs, Isolation
from tutti.backbone.blobs import BlobExists
from tutti.chassis.store.audit import CHANGED, MINUTE
from tutti.chassis.store.seals import FIRST, BadBatch, Batch, Row, broken, compared, decoded, key_of, row_digest
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit, Units

INTERVAL_SECONDS = 5.0
PAGE = 500
KNOWN = 10_000
_COLUMNS = (
    "seq", "at", "user", "tenant", "method", "action", "resource", "revision", "outcome", "reason", "address", "times"
)  # fmt: skip
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """`head` is the digest of the newest batch: whoever wrote an earlier one down can look for it in the chain."""

    batches: int
    records: int
    unsealed: int
    head: str
    problems: tuple[str, ...]


class Sealer:
    """A Loop."""

    def __init__(self, units: Units, blobs: Blobs) -> None:
        self.name, self.interval = f"{units.service} audit sealer", INTERVAL_SECONDS
        self._units, self._blobs = units, blobs
        self._head: tuple[int, str] | None = None
        self._known: OrderedDict[str, None] = OrderedDict()
        self._seen: int | None = None

    def step(self) -> bool:
        newest = self._units.run(_newest, isolation=Isolation.READ_COMMITTED)
        if newest == self._seen:
            return False
        if self._head is None:
            self._head = self._read_head()
        fresh, pending = self._units.run(self._unsealed, isolation=Isolation.READ_COMMITTED)
        for begin in range(0, len(fresh), PAGE):
            if not self._seal(fresh[begin : begin + PAGE]):
                return True  # another copy sealed something: look again
        self._seen = None if pending else newest
        return False

    def _seal(self, rows: list[Row]) -> bool:
        assert self._head is not None
        number, previous = self._head
        batch = Batch(self._units.service, number + 1, previous, tuple(rows))
        try:
            self._blobs.put_if_absent(key_of(batch.service, batch.number), batch.encoded())
        except BlobExists:
            self._head = None
            return False
        self._head = (batch.number, batch.digest)
        self._remember(batch)
        return True

    def _read_head(self) -> tuple[int, str]:
        """The newest batch; its records, and those of the batches before it, are known from now on."""
        numbers = _numbers(self._blobs, self._units.service)
        self._known.clear()
        head: tuple[int, str] | None = None
        for number in reversed(numbers):
            try:
                batch = decoded(self._blobs.get(key_of(self._units.service, number)))
            except BadBatch as error:
                _log.error("%s was changed: %s", key_of(self._units.service, number), error)
                head = head or (number, "")
                continue
            head = head or (number, batch.digest)
            self._remember(batch)
            if len(self._known) >= KNOWN:
                break
        return head or (FIRST - 1, "")

    def _remember(self, batch: Batch) -> None:
        self._known.update(dict.fromkeys(map(row_digest, batch.rows)))
        while len(self._known) > 2 * KNOWN:
            self._known.popitem(last=False)

    def _unsealed(self, unit: Unit) -> tuple[list[Row], bool]:
        """Records that no batch has, in their order, and whether some are still being counted."""
        found: list[Row] = []
        pending, before = False, None
        while page := _page(unit, before):
            new = [row for row in page if row_digest(row) not in self._known]
            final = [row for row in new if _is_final(row, micros(unit.now))]
            pending |= len(final) < len(new)
            found += final
            if len(new) < len(page):
                break
            before = page[-1]["seq"]
        return found[::-1], pending


def verify(units: Units, blobs: Blobs, retention: timedelta, expected: str = "") -> Verdict:
    """Read the whole chain and compare it with the database, and with an earlier head of it.

    Raises BlobError, DatabaseError.
    """
    service = units.service
    chain = ((number, blobs.get(key_of(service, number))) for number in _numbers(blobs, service))
    problems, batches = broken(service, chain)

    def read(unit: Unit) -> tuple[list[Row], int]:
        table = unit.tables.audit
        rows = unit.tx.execute(select(table).order_by(table.c.seq)).all()
        return [_row(row) for row in rows], micros(unit.now - retention)

    # A record that was sealed after the chain was read is none of its business: rows are read last.
    rows, since = units.run(read, isolation=Isolation.READ_COMMITTED)
    sealed = {row_digest(row) for batch in batches for row in batch.rows}
    return Verdict(
        batches=len(batches),
        records=sum(len(batch.rows) for batch in batches),
        unsealed=sum(row_digest(row) not in sealed for row in rows),
        head=f"{batches[-1].number}:{batches[-1].digest}" if batches else "",
        problems=(*problems, *_missing_head(batches, expected), *compared(batches, rows, since)),
    )


def _missing_head(batches: list[Batch], expected: str) -> list[str]:
    if not expected or any(f"{batch.number}:{batch.digest}" == expected for batch in batches):
        return []
    return [f"the chain has no batch {expected}: it was removed, or the whole chain was written anew"]


def _numbers(blobs: Blobs, service: str) -> list[int]:
    return [int(stat.key.rpartition("/")[2]) for stat in blobs.list(f"audit/{service}/")]


def _newest(unit: Unit) -> int:
    """The number of the newest record; 0 for none."""
    table = unit.tables.audit
    return int(unit.tx.execute(select(table.c.seq).order_by(table.c.seq.desc()).limit(1)).scalar() or 0)


def _page(unit: Unit, before: Any) -> list[Row]:
    table = unit.tables.audit
    query = select(table).order_by(table.c.seq.desc()).limit(PAGE)
    return [_row(row) for row in unit.tx.execute(query if before is None else query.where(table.c.seq < before)).all()]


def _row(row: Any) -> Row:
    return {name: getattr(row, name) for name in _COLUMNS}


def _is_final(row: Row, now: int) -> bool:
    """True if a record does not change any more: all but changes are counted until their minute is over."""
    return row["outcome"] == CHANGED or int(row["at"]) // MINUTE < now // MINUTE
