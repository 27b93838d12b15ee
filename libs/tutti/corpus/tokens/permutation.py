"""A keyed permutation of 0 … n - 1 that needs no memory.

A balanced Feistel network over the next power of four, walked until it falls inside n (Black and Rogaway, "Ciphers
with arbitrary finite domains", section 3).  Integer arithmetic alone: the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tutti.native.deferred import deferred
from tutti.records.canonical import keyed_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
else:
    np = deferred("numpy")

_KEY_BLOCKS = 2  # of the keys of four rounds each
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # the finalizer of splitmix64


@dataclass(frozen=True)
class Permutation:
    """A bijection of 0 … size - 1 chosen by `key`."""

    size: int
    key: bytes

    def forward(self, values: Integers) -> Integers:
        """The position to which each of `values` moves."""
        return self._walk(values, self._keys)

    def inverse(self, values: Integers) -> Integers:
        """The value that moves to each of `values`."""
        return self._walk(values, self._keys[::-1])

    @cached_property
    def _half_bits(self) -> int:
        return -(-(self.size - 1).bit_length() // 2)

    @cached_property
    def _keys(self) -> npt.NDArray[np.uint64]:
        material = b"".join(keyed_bytes("permutation", self.key, bytes([block])) for block in range(_KEY_BLOCKS))
        return np.frombuffer(material, "<u8").astype(np.uint64)

    def _walk(self, values: Integers, keys: npt.NDArray[np.uint64]) -> Integers:
        result = np.array(values, np.uint64)
        outside = np.ones(result.shape, np.bool_)
        while outside.any():
            result[outside] = self._network(result[outside], keys)
            outside = result >= np.uint64(self.size)
        return result.astype(np.int64)

    def _network(self, values: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        # Swapping the halves at the end makes the network with reversed keys its own inverse.
        shift = np.uint64(self._half_bits)
        mask = np.uint64((1 << self._half_bits) - 1)
        left, right = values >> shift, values & mask
        for key in keys:
            left, right = right, left ^ (_mix(right + key) & mask)
        return (right << shift) | left


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MULTIPLIERS[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MULTIPLIERS[1])
    return values ^ (values >> np.uint64(31))
