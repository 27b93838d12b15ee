"""An array in a file: appended to, read and changed in windows, so that memory holds a piece of it.

Promises: it reads and writes what it is asked for and maps nothing, so what it has in memory is what it hands out.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedRandom, FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from tutti.native.arrays import np, npt

Array: TypeAlias = "npt.NDArray[Any]"
Places: TypeAlias = "npt.NDArray[np.int64]"
BUFFER_BYTES = 1 << 13
"""The size of the buffer of each open file. Python's own buffers have 128 KiB since 3.14."""


class DiskArray:
    """A new file of items of one dtype; what was under `path` is gone."""

    def __init__(self, path: Path, dtype: str | np.dtype[Any], length: int = 0) -> None:
        """Begin with `length` zeros."""
        self.path, self.dtype, self._length = path, np.dtype(dtype), length
        self._file = BufferedRandom(FileIO(path, "w+"), BUFFER_BYTES)
        self._file.truncate(length * self.dtype.itemsize)

    def __len__(self) -> int:
        return self._length

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, values: Array) -> None:
        """Add items at the end, cast to the dtype."""
        self._write(self._length, values)
        self._length += len(values)

    def read(self, first: int, behind: int) -> Array:
        """Items first … behind - 1, as a new array; those behind the end are left out."""
        found = np.empty(max(0, min(behind, self._length) - first), self.dtype)
        self._file.seek(first * self.dtype.itemsize)
        seen = self._file.readinto(found.view(np.uint8).data) if len(found) else 0
        if seen != found.nbytes:
            raise OSError(f"{self.path}: read {seen} bytes at item {first}, expected {found.nbytes}")
        return found

    def windows(self, items: int) -> Iterator[tuple[int, Array]]:
        """The whole array in pieces of at most `items`, each with the place of its first item."""
        for first in range(0, self._length, items):
            yield first, self.read(first, first + items)

    def gather(self, places: Places, items: int) -> Array:
        """The items at ascending `places`, of which at most `items` neighbours are read at once."""
        found = np.empty(len(places), self.dtype)
        for first, behind in pieces(places, items):
            low, high = int(places[first]), int(places[behind - 1]) + 1
            found[first:behind] = self.read(low, high)[places[first:behind] - low]
        return found

    def scatter(self, places: Places, values: Array, items: int) -> None:
        """Set the items at ascending `places`, of which at most `items` neighbours are rewritten at once."""
        for first, behind in pieces(places, items):
            low, high = int(places[first]), int(places[behind - 1]) + 1
            window = self.read(low, high)
            window[places[first:behind] - low] = values[first:behind]
            self._write(low, window)

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Close the file and give its space back."""
        self._file.close()
        self.path.unlink()

    def _write(self, at: int, values: Array) -> None:
        if len(values):
            self._file.seek(at * self.dtype.itemsize)
            self._file.write(np.ascontiguousarray(values, self.dtype).view(np.uint8).data)
            self._file.flush()


def pieces(places: Places, items: int) -> Iterator[tuple[int, int]]:
    """Cut ascending places into runs that lie within `items` of their first, as (first, behind)."""
    first = 0
    while first < len(places):
        behind = int(np.searchsorted(places, places[first] + items))
        yield first, behind
        first = behind
