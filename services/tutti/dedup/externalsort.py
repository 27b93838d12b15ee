"""An external sort: rows of two 64-bit numbers, in order, in bounded memory.

Promises: the order is that of the rows alone, whatever the order in which they came and however they were cut; a row
that came more than once comes once. Memory is a few times `run_rows` rows; runs beyond the first lie in the folder.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus import arrays
from tutti.dedup.kernel import address, native

Rows = npt.NDArray[np.uint64]
"""uint64 [rows, 2]: ordered by the first column, then by the second."""

RUN_ROWS = 1 << 18
FAN_IN = 32
"""Runs that are merged at once. More are merged in several passes, those that end near each other first: there copies
of a row meet early, and time stays nearly linear in the rows.
"""
_LEAST_BLOCK = 64


class ExternalSort:
    """Add rows, then read them sorted, once or several times; files are named by `name` and stay in the folder."""

    def __init__(self, folder: Path, name: str, *, run_rows: int = RUN_ROWS) -> None:
        self._folder = folder
        self._name = name
        self._run_rows = run_rows
        self._runs: list[tuple[tuple[int, int], Path]] = []
        """The last row of each run, and its file."""
        self._written = 0
        """Runs, counting those that were merged into larger ones."""
        self._held: list[Rows] = []
        self._held_rows = 0

    def add(self, first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]) -> None:
        """Add rows by their columns, uint64 [rows] each."""
        for begin in range(0, len(first), self._run_rows):
            part = slice(begin, begin + self._run_rows)
            self._held.append(np.stack([first[part], second[part]], axis=1))
            self._held_rows += len(self._held[-1])
            if self._held_rows >= self._run_rows:
                self._spill()

    def blocks(self) -> Iterator[Rows]:
        """All rows in order, a block at a time."""
        if not self._runs:
            rows = self._sorted()
            self._held, self._held_rows = [rows], len(rows)
            if len(rows):
                yield rows
            return
        if self._held_rows:
            self._spill()
        while len(self._runs) > FAN_IN:
            runs = [path for _, path in sorted(self._runs)]
            self._runs = [self._together(runs[begin : begin + FAN_IN]) for begin in range(0, len(runs), FAN_IN)]
        yield from self._merged([path for _, path in self._runs])

    def remove(self) -> None:
        """Forget all rows."""
        for _, run in self._runs:
            run.unlink()
        self._runs, self._held, self._held_rows = [], [], 0

    def _sorted(self) -> Rows:
        return in_order(np.concatenate([np.zeros((0, 2), np.uint64), *self._held]))

    def _spill(self) -> None:
        rows, run = self._sorted(), self._place()
        arrays.write(run, rows)
        self._runs.append((_row(rows, -1), run))
        self._held, self._held_rows = [], 0

    def _together(self, runs: Sequence[Path]) -> tuple[tuple[int, int], Path]:
        """Merge runs into one."""
        last, path = (0, 0), self._place()
        with path.open("wb") as file:
            for rows in self._merged(runs):
                arrays.append(file, rows)
                last = _row(rows, -1)
        for run in runs:
            run.unlink()
        return last, path

    def _merged(self, runs: Sequence[Path]) -> Iterator[Rows]:
        return merged(runs, max(self._run_rows // len(runs), _LEAST_BLOCK))

    def _place(self) -> Path:
        self._written += 1
        return self._folder / f"{self._name}-{self._written:06}.rows"


def in_order(rows: Rows) -> Rows:
    """The rows sorted, each once."""
    library = native().library
    rows = by_numpy(rows) if library is None else by_kernel(library, rows)
    new = np.ones(len(rows), np.bool_)
    np.logical_or(rows[1:, 0] != rows[:-1, 0], rows[1:, 1] != rows[:-1, 1], out=new[1:])
    return rows if new.all() else rows[new]


def by_kernel(library: ctypes.CDLL, rows: Rows) -> Rows:
    """The rows sorted."""
    ordered = rows.copy(order="C")
    library.sort_rows(address(ordered), address(np.empty_like(ordered)), ctypes.c_int64(len(ordered)))
    return ordered


def by_numpy(rows: Rows) -> Rows:
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def merged(runs: Sequence[Path], block: int) -> Iterator[Rows]:
    """Merge sorted files, of which `block` rows each are in memory. A row of several files comes once.

    Rows up to the least of the last rows in memory can go out: every file that has such a row has it in memory. Only
    the files that have one are looked at, so that files in sequence cost no more than one.
    """
    readers = [_Reader(run, block) for run in runs]
    heads = [(reader.first, place) for place, reader in enumerate(readers) if len(reader.rows)]
    lasts = [(reader.last, place) for place, reader in enumerate(readers) if not reader.ended]
    heapify(heads)
    heapify(lasts)
    while heads:
        bound = lasts[0][0] if lasts else None
        places, parts = list[int](), list[Rows]()
        while heads and (bound is None or heads[0][0] <= bound):
            places.append(heappop(heads)[1])
            parts.append(readers[places[-1]].take(bound))
        yield parts[0] if len(parts) == 1 else in_order(np.concatenate(parts))
        while lasts and lasts[0][0] == bound:
            place = heappop(lasts)[1]
            readers[place].read()
            if not readers[place].ended:
                heappush(lasts, (readers[place].last, place))
        for place in places:
            if len(readers[place].rows):
                heappush(heads, (readers[place].first, place))


class _Reader:
    """A sorted file and the next block of its rows; `ended`: there are no more."""

    def __init__(self, path: Path, block: int) -> None:
        self._path, self._block, self._read = path, block, 0
        self.read()

    def read(self) -> None:
        self.rows: Rows = np.fromfile(self._path, np.uint64, 2 * self._block, offset=16 * self._read).reshape(-1, 2)
        self._read += len(self.rows)
        self.ended = len(self.rows) < self._block

    @property
    def first(self) -> tuple[int, int]:
        return _row(self.rows, 0)

    @property
    def last(self) -> tuple[int, int]:
        return _row(self.rows, -1)

    def take(self, bound: tuple[int, int] | None) -> Rows:
        """Remove the rows up to `bound`, None for all, and return them."""
        cut = len(self.rows) if bound is None else _behind(self.rows, bound)
        taken, self.rows = self.rows[:cut], self.rows[cut:]
        return taken


def _row(rows: Rows, place: int) -> tuple[int, int]:
    first, second = rows[place].tolist()
    return first, second


def _behind(rows: Rows, bound: tuple[int, int]) -> int:
    """The number of rows that are not beyond `bound`."""
    first = np.uint64(bound[0])
    begin, end = (int(np.searchsorted(rows[:, 0], first, side)) for side in ("left", "right"))
    return begin + int(np.searchsorted(rows[begin:end, 1], np.uint64(bound[1]), "right"))
