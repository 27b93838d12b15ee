"""Files of rows beside a manifest: Parquet of one schema, written and read whole or in batches."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tutti.native.arrays import pa, pq
from tutti.records.errors import UnsupportedFormat

AS_PARQUET: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "use_dictionary": False}
"""Texts and names are seldom there twice, so that looking for it costs more than it saves; of the levels of zstd this
is the last that is quick: 6 takes twice as long, and a tenth less room."""


def write_rows(schema: pa.Schema, rows: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches of rows; none make a file too."""
    with pq.ParquetWriter(path, schema, **AS_PARQUET) as file:  # type: ignore[no-untyped-call]
        for batch in rows:
            file.write_batch(batch)


def batches(
    source: Path | io.IOBase | pa.NativeFile, columns: Sequence[str] | None = None, *, rows: int = 1 << 16
) -> Iterator[pa.RecordBatch]:
    """So many rows of a file at a time, of all columns or of these; no more of it is held."""
    with pq.ParquetFile(source, pre_buffer=False) as file:  # type: ignore[no-untyped-call]
        yield from file.iter_batches(rows, columns=columns, use_threads=False)


def read_rows(schema: pa.Schema, source: bytes | Path, what: str) -> pa.Table:
    """The rows of a file, whose bytes were compared with a digest before. Raises UnsupportedFormat naming `what`."""
    try:
        table = pq.read_table(io.BytesIO(source) if isinstance(source, bytes) else source)  # type: ignore[no-untyped-call]
        return table.cast(schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsupportedFormat(f"not a file of {what}: {error}; run the stage again") from error
