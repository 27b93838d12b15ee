"""Rows of two 64-bit numbers, and their external sort (`tutti.corpus.sorting`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus import sorting

Rows = npt.NDArray[np.uint64]
"""uint64 [rows, 2]: ordered by the first column, then by the second."""

RUN_ROWS = 1 << 18


class RowSorter(sorting.Sorter):
    """Sorts rows in memory of a few times `run_rows`; the folder of its runs must not exist yet."""

    def __init__(self, folder: Path, *, run_rows: int = RUN_ROWS) -> None:
        super().__init__(folder, ("<u8", "<u8"), run_rows)

    def blocks(self) -> Iterator[Rows]:
        """All rows in order, each once, a block at a time."""
        return (np.stack(columns, axis=1) for columns in self.batches(RUN_ROWS))


def in_order(rows: Rows) -> Rows:
    """Return the rows sorted, each once."""
    return np.stack(sorting.in_order(*rows.T), axis=1)
