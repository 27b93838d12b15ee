"""A tally of many keys in little memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

KEY_BYTES = 16
_TOGETHER = 1 << 16
_Keys = npt.NDArray[np.uint64]


class Tally:
    """How often each key came, KEY_BYTES long; memory is 20 bytes a key, and some 150 for the newest fifth of them."""

    def __init__(self) -> None:
        self._new = dict[bytes, int]()
        self._keys: _Keys = np.zeros((0, 2), np.uint64)  # in order
        self._counts = np.zeros(0, np.uint32)

    def __getitem__(self, key: bytes) -> int:
        place = self._place(key)
        return self._new.get(key, 0) if place is None else int(self._counts[place])

    def add(self, key: bytes, times: int = 1) -> int:
        """How often it came, with these times."""
        if (place := self._place(key)) is not None:
            self._counts[place] += times
            return int(self._counts[place])
        count = self._new[key] = self._new.get(key, 0) + times
        if len(self._new) >= max(_TOGETHER, len(self._keys) // 4):
            keys = np.concatenate([self._keys, _halves(b"".join(self._new))])
            counts = np.append(self._counts, np.fromiter(self._new.values(), np.uint32))
            order = np.lexsort(keys.T[::-1])
            self._keys, self._counts, self._new = keys[order], counts[order], {}
        return count

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Every key, once."""
        for halves, count in zip(self._keys, self._counts.tolist(), strict=True):
            yield halves.astype(">u8").tobytes(), count
        yield from self._new.items()

    def _place(self, key: bytes) -> int | None:
        if not len(self._keys):
            return None
        first, second = _halves(key)[0]
        begin, end = (int(np.searchsorted(self._keys[:, 0], first, side)) for side in ("left", "right"))
        found = np.flatnonzero(self._keys[begin:end, 1] == second)
        return begin + int(found[0]) if len(found) else None


def _halves(keys: bytes) -> _Keys:
    return np.frombuffer(keys, ">u8").astype(np.uint64).reshape(-1, 2)
