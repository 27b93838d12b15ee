"""Seals of the audit trail: batches of records, each bound to the one before by its digest.

Promises: pure. A batch holds the records whole, so that one that was removed from the database can still be read; any
change, removal or reordering of what was sealed changes the digest of every later batch.
"""

from collections.abc import Mapping
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
