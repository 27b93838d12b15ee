"""Figures of a training: its loss as one number.

Pure. Promises: reports of progress, pages, summaries and commands take it from here, so that "loss" is the same
quantity in all of them.
"""

import math
from collections.abc import Iterable

NEWEST_STEPS = 20
"""The steps whose mean is the loss that is shown, since one alone is noise; there are fewer after a start."""


def newest_loss(losses: Iterable[float]) -> tuple[float | None, int]:
    """The mean of the finite ones of the losses of the newest steps, and how many they are; None for none."""
    finite = [each for each in losses if math.isfinite(each)]
    return (sum(finite) / len(finite) if finite else None), len(finite)
