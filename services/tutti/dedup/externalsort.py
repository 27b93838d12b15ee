"""An external sort: rows of two 64-bit numbers, in order, in bounded memory.

Promises: the order is that of the rows alone, whatever the order in which they came and however they were cut; a row
that came more than once comes once. Memory is a few times `run_rows` rows; runs beyond the first lie in the folder.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus import arrays
from tutti.dedup.kernel import address, native

Rows = npt.NDArray[np.uint64]
"""uint64 [rows, 2]: ordered by the first column, then by the second."""

RUN_ROWS = 1 << 18
_LEAST_BLOCK = 64


class ExternalSort:
    """Add rows, then read them sorted, once or several times; files are named by `name` and stay in the folder."""

    def __init__(self, folder: Path, name: str, *, run_rows: int = RUN_ROWS) -> None:
        self._folder = folder
        self._name = name
        self._run_rows = run_rows
        self._runs: list[Path] = []
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
        yield from _merged(self._runs, max(self._run_rows // len(self._runs), _LEAST_BLOCK))

    def remove(self) -> None:
        """Forget all rows."""
        for run in self._runs:
            run.unlink()
        self._runs, self._held, self._held_rows = [], [], 0

    def _sorted(self) -> Rows:
        return in_order(np.concatenate([np.zeros((0, 2), np.uint64), *self._held]))

    def _spill(self) -> None:
        run = self._folder / f"{self._name}-{len(self._runs):06}.rows"
        arrays.write(run, self._sorted())
        self._runs.append(run)
        self._held, self._held_rows = [], 0


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


def _merged(runs: list[Path], block: int) -> Iterator[Rows]:
    """Merge sorted files: what is not beyond the least of the last rows in memory can go out.

    A row of several runs goes out once: where it is the bound or less, all of them have it in memory.
    """
    held = [_read(run, 0, block) for run in runs]
    read = [len(rows) for rows in held]
    ended = [len(rows) < block for rows in held]
    while any(len(rows) for rows in held):
        bounds = [tuple(rows[-1].tolist()) for rows, end in zip(held, ended, strict=True) if not end]
        cuts = [_behind(rows, min(bounds)) if bounds else len(rows) for rows in held]
        yield in_order(np.concatenate([rows[:cut] for rows, cut in zip(held, cuts, strict=True)]))
        for run, cut in enumerate(cuts):
            held[run] = held[run][cut:]
            if not len(held[run]) and not ended[run]:
                held[run] = _read(runs[run], read[run], block)
                read[run] += len(held[run])
                ended[run] = len(held[run]) < block


def _behind(rows: Rows, bound: tuple[int, int]) -> int:
    """How many of the rows are not beyond `bound`."""
    first = np.uint64(bound[0])
    begin, end = (int(np.searchsorted(rows[:, 0], first, side)) for side in ("left", "right"))
    return begin + int(np.searchsorted(rows[begin:end, 1], np.uint64(bound[1]), "right"))


def _read(run: Path, begin: int, count: int) -> Rows:
    return np.fromfile(run, np.uint64, 2 * count, offset=16 * begin).reshape(-1, 2)
