"""Krippendorff's alpha: how much annotators agree beyond chance (Krippendorff 2004, Content Analysis, section 11.3).

1 is full agreement, 0 what chance gives. The distance of two scores is their squared difference (interval metric).
"""

import math
from collections.abc import Iterable, Sequence

from tutti.judgements.intervals import student


def alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Alpha of the scores that each unit was given, by whichever annotators.

    Units with fewer than two scores do not count. None where none is left, or all scores are the same.
    """
    pairable = [scores for scores in units if len(scores) >= 2]
    every = [score for scores in pairable for score in scores]
    expected = _squares(every) / (len(every) - 1) if every else 0.0
    if not expected:
        return None
    observed = sum(_squares(scores) / (len(scores) - 1) for scores in pairable)
    return 1.0 - observed / expected


def bounds(units: Iterable[Sequence[float]]) -> tuple[float, float] | None:
    """The 95 % interval of alpha, by leaving out one unit at a time (jackknife).

    None where it is unknown: alpha has no value, also without one of the units, or all of these values are the same.
    """
    pairable = [scores for scores in units if len(scores) >= 2]
    whole = alpha(pairable)
    count, total = sum(map(len, pairable)), sum(map(sum, pairable))
    squares = sum(score * score for scores in pairable for score in scores)
    observed = [_squares(scores) / (len(scores) - 1) for scores in pairable]
    without = list[float]()
    for scores, own in zip(pairable, observed, strict=True):
        rest, left = count - len(scores), total - sum(scores)
        spread = 2.0 * (rest * (squares - sum(score * score for score in scores)) - left * left)
        if spread <= 0:
            return None
        without.append(1.0 - (sum(observed) - own) * (rest - 1) / spread)
    if whole is None or len(without) < 2 or max(without) - min(without) < 1e-9:
        return None
    mean, units_left = math.fsum(without) / len(without), len(without) - 1
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in without) * units_left / len(without))
    half = student(0.95, units_left) * error
    return max(-1.0, whole - half), min(1.0, whole + half)


def _squares(scores: Sequence[float]) -> float:
    """The sum of squared differences over all ordered pairs."""
    total = sum(scores)
    return 2.0 * (len(scores) * sum(score * score for score in scores) - total * total)
