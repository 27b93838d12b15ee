"""Rows of Parquet as the objects that JSON has: lists and structures of any depth.

Promises: memory holds a few rows, and a text once, however many cells have it; a row that is too large, is nested too
deep, or has a text that is not UTF-8, becomes an Unfit, and the others are read. Bytes are an object of their number;
other values that JSON lacks, such as dates, are texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tutti.corpus.conversations.unfit import Reason, Unfit
from tutti.native.arrays import pa, pq

_ROWS = 16
_DEEPEST = 200
"""Lists and structures in one another; the recursion limits of versions of Python differ."""
_OTHER_VALUE = 16
"""Bytes counted for a value that is no text."""


def opened(file: Path) -> pq.ParquetFile:
    """A file of rows whose texts stay in their dictionaries. Raises OSError and pa.ArrowException."""
    with pq.ParquetFile(file) as found:  # type: ignore[no-untyped-call]
        columns = [found.schema.column(at) for at in range(len(found.schema.names))]
        texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    return pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False)  # type: ignore[no-untyped-call]


def objects(file: pq.ParquetFile, most: int) -> Iterator[dict[str, object] | Unfit]:
    """Each row as an object of at most `most` bytes. Raises OSError and pa.ArrowException."""
    for batch in file.iter_batches(_ROWS, use_threads=False):  # type: ignore[no-untyped-call]
        for at in range(batch.num_rows):
            yield _row(batch, at, most)


def _row(batch: pa.RecordBatch, at: int, most: int) -> dict[str, object] | Unfit:
    room = _Room(most)
    try:
        return {name: room.value(batch.column(place)[at]) for place, name in enumerate(batch.schema.names)}
    except _Full:
        return Unfit(Reason.TOO_LARGE, f"a row of more than {most:,} bytes")
    except UnicodeDecodeError:
        return Unfit(Reason.NOT_JSON, "a text that is not UTF-8; expected Unicode text")
    except _Deep:
        return Unfit(
            Reason.NOT_JSON,
            f"more than {_DEEPEST} lists or structures in one another; expected an object as JSON has it",
        )


class _Full(Exception):
    """A row is too large."""


class _Deep(Exception):
    """A row is nested too deep."""


class _Room:
    """The bytes that are left for a row."""

    def __init__(self, most: int) -> None:
        self._left = most

    def value(self, cell: Any, depth: int = 0) -> object:
        """Raises _Full, _Deep, UnicodeDecodeError."""
        if depth > _DEEPEST:
            raise _Deep
        if isinstance(cell, pa.DictionaryScalar):
            cell = cell.value
        self._take(_OTHER_VALUE)
        if not cell.is_valid:
            return None
        if isinstance(cell, pa.StructScalar):
            return {cell.type.field(at).name: self.value(cell[at], depth + 1) for at in range(cell.type.num_fields)}
        if isinstance(cell, pa.ListScalar):
            return [self.value(each, depth + 1) for each in cell.values]
        if isinstance(cell, pa.StringScalar | pa.BinaryScalar):
            self._take(cell.as_buffer().size)
        found = cell.as_py()
        if isinstance(found, bytes):  # no text, whatever is in it
            return {"bytes": len(found)}
        return found if isinstance(found, str | int | float | bool) else str(found)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Full
