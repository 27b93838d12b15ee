"""Document shards, as near-duplicates read them: a few documents at a time."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Reader = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Reads the named columns of all documents, each time anew, in any order and any cut."""

BATCH_DOCUMENTS = 128


def reader(shards: Sequence[Path], *, without: Collection[str] = frozenset()) -> Reader:
    """A reader of local shard files that leaves out the documents with these ids; it is asked for `doc_id` always."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in shards:
            with pq.ParquetFile(path, pre_buffer=False) as file:  # type: ignore[no-untyped-call]
                for batch in file.iter_batches(BATCH_DOCUMENTS, columns=list(columns), use_threads=False):
                    stay = [doc_id not in without for doc_id in batch["doc_id"].to_pylist()] if without else [True]
                    yield batch if all(stay) else batch.filter(pa.array(stay))

    return read
