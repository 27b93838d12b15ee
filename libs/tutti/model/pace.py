"""The pace of a gang: which ranks compute slower than the others. Does not import torch.

Promises: a rank is named if, over a window of steps, its median time for a leaf is `RATIO` times that of the other
ranks. Short steps have windows of more of them, so that the noise of a shared machine names nobody. It is a finding,
and stops nothing.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

WINDOW, LONGEST_WINDOW = 20, 400
"""The least steps without an audit that a finding is about, and the most, while they are short."""
WINDOW_SECONDS = 3.0
"""Busy seconds of the slowest rank in a window, unless it is the longest."""
RATIO = 1.5
MOST = 8
"""Stragglers that a finding names, the slowest ones."""


@dataclass(frozen=True)
class Straggler:
    """A slow rank; `ratio` is its median time for a leaf, divided by the median of the other ranks."""

    rank: int
    ratio: float


@dataclass(frozen=True)
class Finding:
    """The stragglers of a window that ended with `step`, in the order of ranks."""

    step: int
    stragglers: tuple[Straggler, ...]


class Pace:
    """Collects the busy seconds of steps without an audit; `leaves` are those that each rank computes in a step."""

    def __init__(self, leaves: Sequence[int]) -> None:
        self._leaves = tuple(leaves)
        self._window: list[tuple[float, ...]] = []
        self._busy = [0.0] * len(self._leaves)

    def add(self, step: int, busy: Sequence[float]) -> Finding | None:
        """Take the busy seconds of all ranks in a step; return a finding when a window is full."""
        self._window.append(tuple(seconds / leaves for seconds, leaves in zip(busy, self._leaves, strict=True)))
        self._busy = [so_far + seconds for so_far, seconds in zip(self._busy, busy, strict=True)]
        steps = len(self._window)
        if steps < WINDOW or (max(self._busy) < WINDOW_SECONDS and steps < LONGEST_WINDOW):
            return None
        medians = [median(rank) for rank in zip(*self._window, strict=True)]
        self._window.clear()
        self._busy = [0.0] * len(self._leaves)
        return Finding(step, stragglers(medians))


def stragglers(seconds: Sequence[float]) -> tuple[Straggler, ...]:
    """Return the stragglers among ranks, by the seconds that each takes for a leaf; none of a single rank."""
    found, ascending = [], sorted(seconds)
    for rank, own in enumerate(seconds):
        usual = _median_without(ascending, own) if len(seconds) > 1 else own
        if own > usual and own >= RATIO * usual:
            found.append(Straggler(rank, own / usual if usual > 0 else RATIO))
    slowest = sorted(found, key=lambda each: (-each.ratio, each.rank))[:MOST]
    return tuple(sorted(slowest, key=lambda each: each.rank))


def _median_without(ascending: Sequence[float], own: float) -> float:
    """Return the median of two or more sorted values without one of them; a gang of n ranks asks n times."""
    at, middle = bisect_left(ascending, own), (len(ascending) - 1) // 2

    def other(place: int) -> float:
        return ascending[place if place < at else place + 1]

    return other(middle) if len(ascending) % 2 == 0 else (other(middle - 1) + other(middle)) / 2
