"""Decisions: the documents that a filter rejected, each with the rule, what it saw and its threshold, as a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tutti.corpus.rows import read_rows, write_rows
from tutti.native.arrays import pa

LANGUAGE_RULE = "language"
RETRACTED_RULE = "retracted"
REPEATED_RULE = "repeated_lines"
CLEANED_RULE = "cleaned_lines"
_ROWS = 1 << 14


@cache
def schema() -> pa.Schema:
    """Return the columns of decisions, sorted by `doc_id`. `rule` is the first that rejects.

    Two rules have no value: `language`, which looks at `language`, and `retracted`, for documents that somebody named.
    `repeated_lines` and `cleaned_lines` are dedup's: the characters that cuts leave.
    """
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("rule", pa.string(), nullable=False),
            pa.field("value", pa.float64()),
            pa.field("threshold", pa.float64()),
            pa.field("language", pa.string(), nullable=False),
        ]
    )


def short(documents: Iterable[tuple[str, int]], threshold: int, rule: str = REPEATED_RULE) -> pa.Table:
    """Rows for documents, by id, of which so many characters are left that `threshold` is more."""
    ids, left = [list(each) for each in zip(*documents, strict=True)] or ([], [])
    columns = (ids, [rule] * len(ids), left, [threshold] * len(ids), [""] * len(ids))
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, schema(), strict=True)]
    return pa.table(arrays, schema=schema())


def together(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows of several files as those of one; no document is in two."""
    return iter(pa.concat_tables(tables).sort_by("doc_id").combine_chunks().to_batches(_ROWS))


def write(rows: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write rows of `schema`, which come sorted by `doc_id`."""
    write_rows(schema(), rows, path)


def decode(data: bytes) -> pa.Table:
    """The rows of a file. Raises UnsupportedFormat."""
    return read_rows(schema(), data, "decisions")
