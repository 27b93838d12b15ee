"""Krippendorff's alpha: how much annotators agree beyond chance (Krippendorff 2004, Content Analysis, section 11.3).

1 is full agreement, 0 what chance gives. The distance of two scores is their squared difference (interval metric).
"""

from collections.abc import Iterable, Sequence


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


def _squares(scores: Sequence[float]) -> float:
    """The sum of squared differences over all ordered pairs."""
    total = sum(scores)
    return 2.0 * (len(scores) * sum(score * score for score in scores) - total * total)
