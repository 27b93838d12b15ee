"""Seen: which documents came before, over a whole ingest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_TOGETHER = 1 << 16
_Halves = npt.NDArray[np.uint64]


class Seen:
    """Ids in hexadecimal, each by its first 128 bits; memory is 16 bytes each, and some 100 for the newest fifth."""

    def __init__(self) -> None:
        self._new = set[bytes]()
        self._known: _Halves = np.zeros((0, 2), np.uint64)  # in order

    def add(self, doc_id: str) -> bool:
        """Whether it is new."""
        key = bytes.fromhex(doc_id[:32])
        if key in self._new or self._knows(key):
            return False
        self._new.add(key)
        if len(self._new) >= max(_TOGETHER, len(self._known) // 4):
            together = np.concatenate([self._known, _halves(b"".join(self._new))])
            self._known, self._new = together[np.lexsort(together.T[::-1])], set()
        return True

    def _knows(self, key: bytes) -> bool:
        first, second = _halves(key)[0]
        begin, end = (int(np.searchsorted(self._known[:, 0], first, side)) for side in ("left", "right"))
        return bool((self._known[begin:end, 1] == second).any())


def _halves(keys: bytes) -> _Halves:
    return np.frombuffer(keys, ">u8").astype(np.uint64).reshape(-1, 2)
