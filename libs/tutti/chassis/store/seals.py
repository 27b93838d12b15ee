"""Seals of the audit trail: batches of records, each bound to the one before by its digest.

Promises: pure. A batch holds the records whole, so that one that was removed from the database can still be read; any
change, removal or reordering of what was sealed changes the digest of every later batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.records.canonical import canonical_json, content_digest, parse_json
from tutti.records.errors import NotCanonical

KIND = "tutti.audit.v1"
FIRST = 1
Row = Mapping[str, str | int]


class BadBatch(ValueError):
    """The bytes are no batch of an audit trail."""


@dataclass(frozen=True)
class Batch:
    """`previous` is the digest of the batch before; empty of the first."""

    service: str
    number: int
    previous: str
    rows: tuple[Row, ...]

    @property
    def digest(self) -> str:
        return content_digest(self._value(), kind=KIND)

    def encoded(self) -> bytes:
        return canonical_json(self._value())

    def _value(self) -> dict[str, object]:
        rows = [dict(row) for row in self.rows]
        return {"service": self.service, "number": self.number, "previous": self.previous, "rows": rows}


def decoded(data: bytes) -> Batch:
    """Return the batch of these bytes. Raises BadBatch."""
    try:
        value = parse_json(data)
        if not isinstance(value, dict):
            raise BadBatch("it is no object")
        batch = Batch(value["service"], value["number"], value["previous"], tuple(value["rows"]))
        if canonical_json(value) != data or batch.encoded() != data:
            raise BadBatch("it is not written as batches are")
    except (NotCanonical, KeyError, TypeError) as error:
        raise BadBatch(f"it is no batch: {type(error).__name__}") from None
    return batch


def row_digest(row: Row) -> str:
    """The digest that identifies a record."""
    return content_digest(dict(row), kind=KIND)


def key_of(service: str, number: int) -> str:
    """Return the key of the blob with a batch."""
    return f"audit/{service}/{number:012d}"


def broken(service: str, batches: Iterable[tuple[int, bytes]]) -> tuple[list[str], list[Batch]]:
    """Return why a chain does not hold, and its batches as far as they can be read; from number and bytes, in order."""
    problems: list[str] = []
    found: list[Batch] = []
    expected, previous = FIRST, ""
    for number, data in batches:
        key = key_of(service, number)
        if number != expected:
            problems.append(f"{key_of(service, expected)} is missing: {number - expected} batches were removed")
            previous = ""
        try:
            batch = decoded(data)
        except BadBatch as error:
            problems.append(f"{key} was changed: {error}")
            expected, previous = number + 1, ""
            continue
        if (batch.service, batch.number) != (service, number):
            problems.append(f"{key} holds batch {batch.number} of {batch.service}")
        if batch.previous != previous and (previous or number == FIRST):
            problems.append(f"{key} does not continue the batch before: one of the two was changed")
        found.append(batch)
        expected, previous = number + 1, batch.digest
    return problems, found


def compared(batches: Sequence[Batch], rows: Sequence[Row], since: int) -> list[str]:
    """Return which sealed records the database lacks or has otherwise; records before `since` were pruned."""
    there = {row_digest(row) for row in rows}
    by_number = {row["seq"]: row for row in rows}
    problems = []
    for batch in batches:
        for row in batch.rows:
            if int(row["at"]) < since or row_digest(row) in there:
                continue
            now = by_number.get(row["seq"])
            what = "was removed from the database" if now is None else "was changed in the database"
            problems.append(
                f"record {row['seq']} ({row['user'] or 'nobody'}: {row['action']}) {what}; "
                f"{key_of(batch.service, batch.number)} has it"
            )
    return problems
