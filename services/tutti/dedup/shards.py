"""Document shards, as near-duplicates read them: a few documents at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Reader = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Reads the named columns of all documents, each time anew, in any order and any cut."""

BATCH_DOCUMENTS = 128


def reader(shards: Sequence[Path]) -> Reader:
    """A reader of local shard files."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in shards:
            with pq.ParquetFile(path, pre_buffer=False) as file:  # type: ignore[no-untyped-call]
                yield from file.iter_batches(BATCH_DOCUMENTS, columns=list(columns), use_threads=False)

    return read
