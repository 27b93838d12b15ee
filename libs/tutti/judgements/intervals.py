"""Confidence intervals of shares, and of win rates whose judgements are not independent.

A share of independent outcomes has the interval of Wilson (1927), whatever shows it.

Judgements of one annotator resemble each other, and so do judgements about one prompt. The variance of a win rate is
estimated by clusters in both directions (Cameron, Gelbach and Miller 2011, section 2.2), with Student's t for the
smaller number of clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tutti.native.arrays import np, npt


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its two-sided confidence interval, cut to 0 … 1. `clusters` is the smallest number of
    clusters in a grouping.
    """

    mean: float
    low: float
    high: float
    count: int
    clusters: int = 0

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} … {self.high:.3f}, n = {self.count})"


@dataclass(frozen=True)
class Proportion:
    """A share of `count` independent outcomes with its 95 % interval; unknown, 0 to 1, without an outcome."""

    share: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, number: float, count: int) -> Proportion:
        """The share of `number` outcomes, a half for each that is undecided, in `count`."""
        if not count:
            return cls(math.nan, 0.0, 1.0, 0)
        return cls(number / count, *wilson(number / count, count), count)

    def __str__(self) -> str:
        if not self.count:
            return "unknown (n = 0)"
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%}, n = {self.count:,})"


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The bounds of the 95 % interval, or that of `z`, of a share of 1 or more independent outcomes (Wilson 1927)."""
    share = min(max(share, 0.0), 1.0)  # a mean of weights may be off by a rounding error
    centre = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    whole = 1 + z * z / count
    return max(0.0, (centre - spread) / whole), min(1.0, (centre + spread) / whole)


def win_rate(
    outcomes: npt.NDArray[np.float64], clusters: Sequence[npt.NDArray[np.int64]], confidence: float = 0.95
) -> Interval:
    """The mean of outcomes with its interval.

    outcomes: float64[n], 1 for a win, .5 for a tie, 0 for a loss. clusters: int64[n] each, at most two groupings, such
    as annotators and prompts. With fewer than two clusters in a direction the spread is unknown: the interval is 0 … 1.
    Outcomes that are all the same show no spread; they have the interval of Wilson for as many outcomes as there are
    clusters in the larger grouping.
    """
    count = len(outcomes)
    if not count:
        return Interval(math.nan, 0.0, 1.0, 0)
    if len(clusters) > 2:
        raise ValueError(f"{len(clusters)} groupings; expected at most 2")
    mean = float(outcomes.mean())
    labels = [np.unique(grouping, return_inverse=True)[1] for grouping in clusters]
    sizes = [int(label.max()) + 1 for label in labels] or [count]
    if min(sizes) < 2:
        return Interval(mean, 0.0, 1.0, count, min(sizes))
    if (outcomes == outcomes[0]).all():
        low, high = wilson(mean, max(sizes), NormalDist().inv_cdf(0.5 + confidence / 2))
        return Interval(mean, low, high, count, min(sizes))
    residuals = outcomes - mean
    independent = float((residuals**2).sum()) * count / max(1, count - 1)
    total = sum(_between(residuals, label) for label in labels)
    if len(labels) == 2:
        both = np.unique(labels[0] * sizes[1] + labels[1], return_inverse=True)[1]
        total -= _between(residuals, both)
    half = student(confidence, min(sizes) - 1) * math.sqrt(max(total, independent)) / count
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half), count, min(sizes))


def _between(residuals: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> float:
    sums = np.bincount(labels, weights=residuals)
    return float((sums**2).sum()) * len(sums) / max(1, len(sums) - 1)


def student(confidence: float, freedom: int) -> float:
    """The two-sided quantile of Student's t (Cornish-Fisher expansion, Abramowitz and Stegun 26.7.5).

    Within .002 of the exact value for 5 degrees of freedom or more at a confidence of .95; too small below 3, where the
    exact values for 1 and 2 degrees are used.
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom; expected at least 1")
    p = 0.5 + confidence / 2
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))
