"""Sorting more records than memory holds: sorted runs in files, merged.

Promises: every record that was added comes out once, in ascending order of its key; records with equal keys come in no
order that means anything. Memory holds about `Sorter.record_bytes` for each record of the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tutti.corpus import arrays
from tutti.native.arrays import np, npt

Columns: TypeAlias = "tuple[npt.NDArray[Any], ...]"
"""The first holds the keys; all have one length."""

FAN = 512
"""Runs that are merged at once, at most."""

BLOCK = 16
"""Records of a run that a merge loads at once, at least."""


class Sorter:
    """Takes records in any order, gives them sorted; used once."""

    def __init__(self, folder: Path, dtypes: Sequence[str], capacity: int) -> None:
        """Keep runs in `folder`, which is made here and is gone when all records were read."""
        folder.mkdir()
        self._folder, self._dtypes, self._capacity = folder, dtypes, max(2, capacity)
        self._buffers = tuple(np.empty(self._capacity, dtype) for dtype in dtypes)
        self._held = self._made = 0
        self._runs: list[_Run] = []

    @staticmethod
    def record_bytes(dtypes: Sequence[str]) -> int:
        """Maximum bytes per record of the capacity, in a merge: two blocks of its run while one is filled, the records
        that are sorted together, and (for several columns) their order and the sorted copy.
        """
        width = sum(np.dtype(dtype).itemsize for dtype in dtypes)
        return 3 * width if len(dtypes) == 1 else 4 * width + 8

    def add(self, *columns: npt.NDArray[Any]) -> None:
        """Add records, a column each."""
        taken, count = 0, len(columns[0])
        while taken < count:
            fits = min(count - taken, self._capacity - self._held)
            for buffer, column in zip(self._buffers, columns, strict=True):
                buffer[self._held : self._held + fits] = column[taken : taken + fits]
            taken, self._held = taken + fits, self._held + fits
            if self._held == self._capacity:
                self._spill()

    def batches(self, rows: int) -> Iterator[Columns]:
        """All records in order, at most `rows` at once."""
        if not self._runs:
            whole = _ordered(tuple(buffer[: self._held] for buffer in self._buffers))
            self._buffers = ()
            yield from _sliced(whole, rows)
        else:
            self._spill()
            self._buffers = ()
            fan = max(2, min(FAN, self._capacity // BLOCK))
            while len(self._runs) > fan:
                self._runs = [self._joined(self._runs[at : at + fan]) for at in range(0, len(self._runs), fan)]
            for batch in _merged(self._runs, self._capacity):
                yield from _sliced(batch, rows)
        self._folder.rmdir()

    def _spill(self) -> None:
        if self._held:
            run = self._run()
            run.append(_ordered(tuple(buffer[: self._held] for buffer in self._buffers)))
            self._runs.append(run)
            self._held = 0

    def _joined(self, runs: Sequence[_Run]) -> _Run:
        joined = self._run()
        for batch in _merged(runs, self._capacity):
            joined.append(batch)
        return joined

    def _run(self) -> _Run:
        self._made += 1
        return _Run([self._folder / f"{self._made}-{column}" for column in range(len(self._dtypes))], self._dtypes)


class _Run:
    """Sorted records in files: written once, then read once from the front."""

    def __init__(self, paths: Sequence[Path], dtypes: Sequence[str]) -> None:
        self._paths, self._dtypes, self._length, self._read = paths, dtypes, 0, 0
        for path in paths:
            path.touch(exist_ok=False)
        self.head: Columns = tuple(np.empty(0, dtype) for dtype in dtypes)

    def append(self, columns: Columns) -> None:
        for path, column in zip(self._paths, columns, strict=True):
            with path.open("ab") as file:
                arrays.append(file, column)
        self._length += len(columns[0])

    @property
    def all_read(self) -> bool:
        return self._read == self._length

    def fill(self, rows: int) -> None:
        """Have `rows` records in `head`, or all that are left; the files are removed with their last record."""
        count = min(rows - len(self.head[0]), self._length - self._read)
        if count <= 0:
            return
        more = (
            np.fromfile(path, dtype, count, offset=self._read * np.dtype(dtype).itemsize)
            for path, dtype in zip(self._paths, self._dtypes, strict=True)
        )
        self.head = tuple(np.concatenate(both) for both in zip(self.head, more, strict=True))
        self._read += count
        if self.all_read:
            for path in self._paths:
                path.unlink()

    def take(self, bound: Any | None) -> Columns:
        """Take the records of `head` up to `bound`, or all."""
        count = len(self.head[0]) if bound is None else int(np.searchsorted(self.head[0], bound, side="right"))
        taken = tuple(column[:count] for column in self.head)
        self.head = tuple(column[count:] for column in self.head)
        return taken


def _merged(runs: Sequence[_Run], capacity: int) -> Iterator[Columns]:
    """The records of sorted runs in order.

    What is at most the smallest of the last keys that were loaded of runs with more to come can be followed by nothing
    smaller, so all of it is sorted at once; a run is filled when half of its block is gone.
    """
    block = max(1, capacity // max(1, len(runs)))
    left = list(runs)
    while left:
        for run in left:
            if 2 * len(run.head[0]) <= block:
                run.fill(block)
        bound = min((run.head[0][-1] for run in left if not run.all_read), default=None)
        yield _ordered(tuple(np.concatenate(parts) for parts in zip(*(run.take(bound) for run in left), strict=True)))
        left = [run for run in left if len(run.head[0]) or not run.all_read]


def _ordered(columns: Columns) -> Columns:
    """Sorted by the first; a single column in place."""
    if len(columns) == 1:
        columns[0].sort()
        return columns
    order = np.argsort(columns[0])
    return tuple(column[order] for column in columns)


def _sliced(columns: Columns, rows: int) -> Iterator[Columns]:
    for first in range(0, len(columns[0]), rows):
        yield tuple(column[first : first + rows] for column in columns)
