"""Document shards, as near-duplicates read them: a few documents at a time."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Reader = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Reads the named columns of all documents, each time anew, in any order and any cut."""

BATCH_DOCUMENTS, BATCH_BYTES = 512, 1 << 20
"""Maximum size of a batch of documents; it has fewer documents if they are long."""
_NOTHING = pa.scalar("")  # made once: where pandas is not, each that is made looks for it


@dataclass(frozen=True, slots=True)
class Texts:
    """The documents of local shard files, but those with the ids `without`."""

    shards: tuple[Path, ...]
    without: frozenset[str] = frozenset()


def reader(shards: Sequence[Path], *, without: Collection[str] = frozenset(), before: str = "") -> Reader:
    """A reader of local shard files that leaves out the documents with these ids; it is asked for `doc_id` always.

    Ids are read with `before` before them.
    """

    first = pa.scalar(before)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in shards:
            with pq.ParquetFile(path, pre_buffer=False) as file:  # type: ignore[no-untyped-call]
                rows = _rows(file.metadata, columns)
                for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                    stay = [doc_id not in without for doc_id in batch["doc_id"].to_pylist()] if without else [True]
                    some = batch if all(stay) else batch.filter(pa.array(np.array(stay)))
                    yield _named(some, first) if before else some

    return read


def _rows(metadata: pq.FileMetaData, columns: Sequence[str]) -> int:
    """The number of rows to read at once."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    held = [group.column(column) for group in groups for column in range(group.num_columns)]
    size: int = sum(each.total_uncompressed_size for each in held if each.path_in_schema in columns)
    rows: int = metadata.num_rows
    return max(1, min(BATCH_DOCUMENTS, BATCH_BYTES * rows // max(size, 1)))


def _named(batch: pa.RecordBatch, before: pa.Scalar) -> pa.RecordBatch:
    ids = pc.binary_join_element_wise(before, batch["doc_id"], _NOTHING)  # type: ignore[attr-defined]
    return batch.set_column(batch.schema.get_field_index("doc_id"), "doc_id", ids)


def together(readers: Sequence[Reader]) -> Reader:
    """One reader after the other."""
    return lambda columns: (batch for read in readers for batch in read(columns))
