"""Files of rows beside a manifest: Parquet of one schema, written and read whole or in batches."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.corpus.errors import UnsupportedFormat


def write_rows(schema: pa.Schema, rows: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches of rows; none make a file too."""
    with pq.ParquetWriter(path, schema, compression="zstd") as file:  # type: ignore[no-untyped-call]
        for batch in rows:
            file.write_batch(batch)


def read_rows(schema: pa.Schema, source: bytes | Path, what: str) -> pa.Table:
    """The rows of a file, whose bytes were compared with a digest before. Raises UnsupportedFormat naming `what`."""
    try:
        table = pq.read_table(io.BytesIO(source) if isinstance(source, bytes) else source)  # type: ignore[no-untyped-call]
        return table.cast(schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsupportedFormat(f"not a file of {what}: {error}; run the stage again") from error
