"""Randomness as an argument.

Promises: ids and jitter come from here alone, so that a simulation repeats them from its seed.
"""

import random
import secrets
import uuid
from typing import Protocol

from tutti.backbone.clock import Clock


class Randomness(Protocol):
    def bits(self, count: int) -> int: ...

    def uniform(self, low: float, high: float) -> float: ...


class SystemRandomness:
    def bits(self, count: int) -> int:
        return secrets.randbits(count)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)


class SeededRandomness:
    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


def uuid7(clock: Clock, randomness: Randomness) -> str:
    """A time-ordered UUID (RFC 9562, section 5.7), lower case with hyphens."""
    milliseconds = int(clock.now().timestamp() * 1000) & (1 << 48) - 1
    value = milliseconds << 80 | 7 << 76 | randomness.bits(12) << 64 | 0b10 << 62 | randomness.bits(62)
    return str(uuid.UUID(int=value))
