"""An external sort: distinct records of one or two unsigned columns, in ascending order, in bounded memory.

Guarantees: records are ordered by the first column, then by the second, and each occurs once. Neither the order in
which they were added nor the capacity changes that. Records beyond the capacity are in files: sorted runs, merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from pathlib import Path
from typing import Any, TypeAlias

from tutti.corpus import arrays
from tutti.native.arrays import np, npt

Columns: TypeAlias = "tuple[npt.NDArray[Any], ...]"
"""One or two columns of the same length, of unsigned integers."""

FAN = 512
"""Maximum number of runs that are merged at once."""

BLOCK = 16
"""Minimum number of records of a run that a merge loads at once."""

_WINDOW = 1 << 12
"""Records whose ties are sorted together, at most."""
_HALF = 32
_LOW = (1 << _HALF) - 1


class Sorter:
    """Takes records in any order and gives them sorted, any number of times."""

    def __init__(self, folder: Path, dtypes: Sequence[str], capacity: int) -> None:
        """Keep runs in `folder`, which is created here and deleted by `remove`."""
        folder.mkdir()
        self._folder, self._dtypes, self._capacity = folder, dtypes, max(2, capacity)
        self._buffers: Columns = tuple(np.empty(self._capacity, dtype) for dtype in dtypes)
        self._held = self._made = 0
        self._runs: list[_Run] = []

    @staticmethod
    def record_bytes(dtypes: Sequence[str]) -> int:
        """Maximum bytes per record of the capacity, in a merge: two blocks of its run while one is filled, the records
        that are sorted together, and (for two columns) their order and the sorted copy.
        """
        width = sum(np.dtype(dtype).itemsize for dtype in dtypes)
        return 3 * width if len(dtypes) == 1 else 4 * width + 8

    def add(self, *columns: npt.NDArray[Any]) -> None:
        """Add records by their columns, before the first of `batches`."""
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
        if self._runs:
            self._spill()
            self._buffers = ()
            fan = max(2, min(FAN, self._capacity // BLOCK))
            while len(self._runs) > fan:
                self._runs = [self._joined(self._runs[at : at + fan]) for at in range(0, len(self._runs), fan)]
            for batch in _merged(self._runs, self._capacity):
                yield from _sliced(batch, rows)
        else:
            self._buffers = in_order(*(buffer[: self._held] for buffer in self._buffers))
            self._held = len(self._buffers[0])
            yield from _sliced(self._buffers, rows)

    def remove(self) -> None:
        """Delete all records."""
        for run in self._runs:
            run.remove()
        self._folder.rmdir()
        self._runs, self._buffers = [], ()

    def _spill(self) -> None:
        if self._held:
            run = self._run()
            run.append(in_order(*(buffer[: self._held] for buffer in self._buffers)))
            self._runs.append(run)
            self._held = 0

    def _joined(self, runs: Sequence[_Run]) -> _Run:
        joined = self._run()
        for batch in _merged(runs, self._capacity):
            joined.append(batch)
        for run in runs:
            run.remove()
        return joined

    def _run(self) -> _Run:
        self._made += 1
        return _Run(tuple((self._folder / f"{self._made}-{at}", dtype) for at, dtype in enumerate(self._dtypes)))


def in_order(*columns: npt.NDArray[Any]) -> Columns:
    """Return the distinct records of one or two columns in ascending order; a single column is sorted in place."""
    if len(columns) == 1:
        (first,) = columns
        first.sort()
        new = _changes(first)
        return (first,) if new.all() else (first[new],)
    first, second = columns
    order = np.argsort(first)
    first, second = first[order], second[order]
    del order
    at = 0
    while at < len(first):
        end = min(at + _WINDOW, len(first))
        if end < len(first):
            end = int(np.searchsorted(first, first[end]))
        if end <= at:  # one key in more records than a window has
            end = int(np.searchsorted(first, first[at], "right"))
        _sort_ties(first[at:end], second[at:end])
        at = end
    new = _changes(first) | _changes(second)
    return (first, second) if new.all() else (first[new], second[new])


def _sort_ties(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> None:
    """Sort the second column where the first, in order, is the same: of one key, or of a window at most."""
    if first[0] == first[-1]:
        second.sort()
        return
    new = _changes(first)
    alone = new & np.append(new[1:], True)
    if alone.all():
        return
    tied = np.flatnonzero(~alone)
    values = second[tied]
    order = np.argsort(values)
    packed = np.cumsum(new)[tied][order].astype(np.uint64) << _HALF | np.arange(len(order), dtype=np.uint64)
    packed.sort()
    second[tied] = values[order[(packed & _LOW).astype(np.int64)]]


def _changes(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """True for values that differ from the one before, and for the first."""
    new = np.ones(len(column), np.bool_)
    np.not_equal(column[1:], column[:-1], out=new[1:])
    return new


class _Run:
    """Sorted records in files, one file a column."""

    def __init__(self, files: Sequence[tuple[Path, str]]) -> None:
        self._files, self.length = files, 0
        for path, _ in files:
            path.touch(exist_ok=False)

    def append(self, columns: Columns) -> None:
        for (path, _), column in zip(self._files, columns, strict=True):
            with path.open("ab") as file:
                arrays.append(file, column)
        self.length += len(columns[0])

    def read(self, begin: int, count: int) -> Columns:
        return tuple(
            np.fromfile(path, dtype, count, offset=begin * np.dtype(dtype).itemsize) for path, dtype in self._files
        )

    def remove(self) -> None:
        for path, _ in self._files:
            path.unlink()


class _Reader:
    """A run and the block of its records that is in memory."""

    def __init__(self, run: _Run, block: int) -> None:
        self._run, self._block, self._read = run, block, min(block, run.length)
        self.head = run.read(0, self._read)

    @property
    def ended(self) -> bool:
        """True if no record is left in the files."""
        return self._read == self._run.length

    def refill(self) -> None:
        """Load records until the block is full, if half of it is empty."""
        held = len(self.head[0])
        if 2 * held <= self._block and not self.ended:
            count = min(self._block - held, self._run.length - self._read)
            more = self._run.read(self._read, count)
            self.head = tuple(np.concatenate(both) for both in zip(self.head, more, strict=True))
            self._read += count

    def take(self, bound: tuple[int, ...] | None) -> Columns:
        """Remove and return the records of the block up to `bound`, or all for None."""
        count = len(self.head[0]) if bound is None else _up_to(self.head, bound)
        taken = tuple(column[:count] for column in self.head)
        self.head = tuple(column[count:] for column in self.head)
        return taken


def _merged(runs: Sequence[_Run], capacity: int) -> Iterator[Columns]:
    """The records of sorted runs in order.

    Each step takes all records up to the smallest of the last loaded ones, because what follows in a run is larger. It
    visits only the runs that have such a record, so that runs of ascending records cost no more than one run.
    """
    readers = [_Reader(run, max(1, capacity // len(runs))) for run in runs]
    firsts = [(_record(reader.head, 0), at) for at, reader in enumerate(readers)]
    lasts = [(_record(reader.head, -1), at) for at, reader in enumerate(readers) if not reader.ended]
    heapify(firsts)
    heapify(lasts)
    while firsts:
        while lasts:
            last, at = lasts[0]
            if readers[at].ended:
                heappop(lasts)
            elif last != (now := _record(readers[at].head, -1)):
                heapreplace(lasts, (now, at))
            else:
                break
        bound = lasts[0][0] if lasts else None
        visited, parts = list[int](), list[Columns]()
        while firsts and (bound is None or firsts[0][0] <= bound):
            visited.append(heappop(firsts)[1])
            parts.append(readers[visited[-1]].take(bound))
        if len(parts) == 1:
            yield parts[0]
        else:
            yield in_order(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        for at in visited:
            readers[at].refill()
            if len(readers[at].head[0]):
                heappush(firsts, (_record(readers[at].head, 0), at))


def _record(columns: Columns, at: int) -> tuple[int, ...]:
    return tuple(int(column[at]) for column in columns)


def _up_to(columns: Columns, bound: tuple[int, ...]) -> int:
    """The number of records that are not beyond `bound`."""
    begin, end = 0, len(columns[0])
    for column, value in zip(columns, bound, strict=True):
        equal = column[begin:end]
        wanted = column.dtype.type(value)
        begin, end = (begin + int(np.searchsorted(equal, wanted, side)) for side in ("left", "right"))
    return end


def _sliced(columns: Columns, rows: int) -> Iterator[Columns]:
    for first in range(0, len(columns[0]), rows):
        yield tuple(column[first : first + rows] for column in columns)
