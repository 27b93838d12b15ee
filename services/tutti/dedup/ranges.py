"""Ranges: what is cut out of documents, put in order and written as the file of cuts (tutti.corpus.documents.cuts).

Promises: the bytes of the file are a function of the set of ranges. Memory is that of an external sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus.documents import cuts
from tutti.dedup.components import Documents
from tutti.dedup.names import Names
from tutti.dedup.repeats import LOWER, SHIFT
from tutti.dedup.rows import RUN_ROWS, Rows, RowSorter

_ROWS = 1 << 16


class Ranges:
    """Add ranges, then write them; what does not fit in memory lies in the folder."""

    def __init__(self, folder: Path, *, run_rows: int = RUN_ROWS) -> None:
        self._folder, self._held = folder, RowSorter(folder / "ranges", run_rows=run_rows)

    def add(self, documents: Documents, ranges: npt.NDArray[np.int64]) -> None:
        """Add the ranges, int64 [n, 2], of as many documents."""
        begins, ends = ranges.astype(np.uint64).T
        self._held.add(documents.astype(np.uint64) << SHIFT | begins, ends)

    def write(self, names: Names) -> Path:
        """The file, in the folder."""
        path = self._folder / "cuts.parquet"
        cuts.write(_rows(names, self._held.blocks()), path)
        return path


def _rows(names: Names, blocks: Iterator[Rows]) -> Iterator[pa.RecordBatch]:
    for rows in _even(blocks, _ROWS):
        documents, begins = (rows[:, 0] >> SHIFT).astype(np.int64), (rows[:, 0] & LOWER).astype(np.int64)
        columns = [names.ids(documents), pa.array(begins), pa.array(rows[:, 1].astype(np.int64))]
        yield pa.record_batch(columns, schema=cuts.schema())


def _even(blocks: Iterator[Rows], size: int) -> Iterator[Rows]:
    """The same rows in blocks of `size`, the last one of what remains: how they were cut before leaves no trace."""
    held = np.zeros((0, 2), np.uint64)
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) >= size:
            yield held[:size]
            held = held[size:]
    if len(held):
        yield held
