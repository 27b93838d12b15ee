"""A tally of many keys in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tutti.native.arrays import np, npt

KEY_BYTES = 16
_TOGETHER = 1 << 16
_Halves: TypeAlias = "npt.NDArray[np.uint64]"


class Tally:
    """The number of occurrences of each key of KEY_BYTES; memory is 20 bytes per key, and some 150 for each of the
    newest 65,536.
    """

    def __init__(self) -> None:
        self._new = dict[bytes, int]()
        self._first: _Halves = np.zeros(0, np.uint64)  # halves of keys, in the order of these
        self._second: _Halves = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.uint32)

    def __getitem__(self, key: bytes) -> int:
        place = self._place(key)
        return self._new.get(key, 0) if place is None else int(self._counts[place])

    def add(self, key: bytes, times: int = 1) -> int:
        """Add so many occurrences, and return the total."""
        if (place := self._place(key)) is not None:
            self._counts[place] += times
            return int(self._counts[place])
        count = self._new[key] = self._new.get(key, 0) + times
        if len(self._new) >= _TOGETHER:
            self._settle()
        return count

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Every key, once."""
        for first, second, count in zip(self._first, self._second, self._counts.tolist(), strict=True):
            yield np.array([first, second], ">u8").tobytes(), count
        yield from self._new.items()

    def _settle(self) -> None:
        first, second = _halves(b"".join(self._new))
        counts = np.fromiter(self._new.values(), np.uint32)
        order = np.argsort(first)
        places = np.searchsorted(self._first, first[order])
        self._first = np.insert(self._first, places, first[order])
        self._second = np.insert(self._second, places, second[order])
        self._counts = np.insert(self._counts, places, counts[order])
        self._new = {}

    def _place(self, key: bytes) -> int | None:
        if not len(self._first):
            return None
        first, second = (half[0] for half in _halves(key))
        begin, end = (int(np.searchsorted(self._first, first, side)) for side in ("left", "right"))
        found = np.flatnonzero(self._second[begin:end] == second)
        return begin + int(found[0]) if len(found) else None


def _halves(keys: bytes) -> _Halves:
    """uint64 [2, keys]."""
    return np.frombuffer(keys, ">u8").astype(np.uint64).reshape(-1, 2).T
