"""Pairs: two ways to do the same work, measured in turns, and what can be said of their ratio.

Promises: ours and the peer alternate (A B A B ...), so that what else the machine does falls on both; nothing is left
out but the announced warm-ups; the interval is a percentile bootstrap of the median of the ratios of the pairs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A median with its interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Pairs:
    """Seconds (or any cost) of each turn: ours[i] and peer[i] were measured one right after the other."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.ours) != len(self.peer) or not self.ours:
            raise ValueError(f"{len(self.ours)} turns of ours and {len(self.peer)} of the peer; expected as many")

    def cost(self) -> Estimate:
        """Ours as a multiple of the peer's: 1.5 takes half as long again."""
        return bootstrap([ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)])

    def speed(self) -> Estimate:
        """Our speed as a share of the peer's: 0.5 is half as fast."""
        return bootstrap([peer / ours for ours, peer in zip(self.ours, self.peer, strict=True)])


def alternate(
    ours: Callable[[], float], peer: Callable[[], float], *, pairs: int, warmups: int = 1, rest: float = 0.002
) -> Pairs:
    """Measure in turns; each function gives the cost of one turn. The first `warmups` pairs are not kept.

    `rest`: seconds of sleep before each turn. On a busy machine a process that has used up its slice waits in line, and
    without a rest that would always be the same one of the two.
    """
    if pairs < 1:
        raise ValueError(f"{pairs} pairs; expected at least 1")
    costs: tuple[list[float], list[float]] = ([], [])
    for turn in range(warmups + pairs):
        for measure, kept in zip((ours, peer), costs, strict=True):
            time.sleep(rest)
            cost = measure()
            if turn >= warmups:
                kept.append(cost)
    return Pairs(tuple(costs[0]), tuple(costs[1]))


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """The seconds that one call takes, by `clock` (time.process_time: of all threads on a core)."""

    def run() -> float:
        started = clock()
        work()
        return clock() - started

    return run


def bootstrap(values: Sequence[float], *, seed: int = 0) -> Estimate:
    """The median and its interval at 95 %: percentiles of the medians of samples drawn with replacement.

    Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.
    """
    if not values:
        raise ValueError("no values; expected at least 1")
    data = np.asarray(values, np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(data), size=(RESAMPLES, len(data)))
    medians = np.median(data[drawn], axis=1)
    low, high = np.quantile(medians, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(np.median(data)), float(low), float(high))


def median(values: Sequence[float]) -> float:
    """Of at least one value."""
    return float(np.median(np.asarray(values, np.float64)))


def percentile(values: Sequence[float], percent: float) -> float:
    """Of at least one value; `percent` from 0 to 100."""
    return float(np.percentile(np.asarray(values, np.float64), percent))
