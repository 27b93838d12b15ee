"""Exponential backoff: seconds to wait before something that failed is tried again."""

import random
from collections.abc import Callable
from dataclasses import dataclass

MOST_DOUBLINGS = 60
Uniform = Callable[[float, float], float]


@dataclass(frozen=True)
class Backoff:
    """Waits that double from `first` up to `most` seconds."""

    first: float
    most: float

    def longest(self, failures: int) -> float:
        """The wait after a number of failures in a row, without chance: `first` after none or one."""
        return min(self.first * 2.0 ** min(max(failures - 1, 0), MOST_DOUBLINGS), self.most)

    def drawn(self, failures: int, uniform: Uniform = random.uniform) -> float:
        """A wait between half of the longest and the longest, so that those who failed together come back apart."""
        longest = self.longest(failures)
        return uniform(longest / 2, longest)
