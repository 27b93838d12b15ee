"""Decisions: the documents that a filter rejected, each with the rule, what it saw and its threshold, as a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from tutti.corpus.rows import read_rows, write_rows

LANGUAGE_RULE = "language"
RETRACTED_RULE = "retracted"
SCHEMA = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("threshold", pa.float64()),
        pa.field("language", pa.string(), nullable=False),
    ]
)
"""Sorted by `doc_id`. `rule` is the first that rejects. Two have no value: `language`, which looks at `language`, and
`retracted`, for documents that somebody named."""


def write(rows: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write rows of SCHEMA, which come sorted by `doc_id`."""
    write_rows(SCHEMA, rows, path)


def decode(data: bytes) -> pa.Table:
    """The rows of a file. Raises UnsupportedFormat."""
    return read_rows(SCHEMA, data, "decisions")
