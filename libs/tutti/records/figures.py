"""Figures of a training: its loss as one number, and the counts that shares on held-out samples are of.

Pure. Promises: reports of progress, pages, summaries and commands take them from here, so that "loss" is the same
quantity in all of them, and no share is shown without its count.
"""

import math
from collections.abc import Iterable

NEWEST_STEPS = 20
"""The steps whose mean is the loss that is shown, since one alone is noise; there are fewer after a start."""
DECIDED, READ, LEFT_OUT = "decided_pairs", "read_samples", "left_out_samples"
"""Metrics that are counts: pairs that an accuracy is of, samples that were read, and those that were left out."""
COUNTS = (DECIDED, READ, LEFT_OUT)


def newest_loss(losses: Iterable[float]) -> tuple[float | None, int]:
    """The mean of the finite ones of the losses of the newest steps, and how many they are; None for none."""
    finite = [each for each in losses if math.isfinite(each)]
    return (sum(finite) / len(finite) if finite else None), len(finite)
