"""Quality of margins as predictions of preferences, and the temperature at which they predict judgements best."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tutti.records.figures import DECIDED
from tutti.trainer.batches.comparisons import Comparison
from tutti.trainer.metrics import Metrics

BINS = 10
"""Number of bins of equal width for the expected calibration error (Guo et al. 2017, section 2)."""
EXPONENTS = np.arange(-512, 513) / 128
"""Binary logarithms of the temperatures to choose from: 1/16 to 16."""
SPREAD = 1.0
"""The standard deviation of the prior of a temperature's binary logarithm, so that a few pairs move it little."""


def measured(margins: npt.NDArray[np.float64], pairs: Sequence[Comparison]) -> Metrics:
    """Return what margins [pairs] of these pairs are worth, weighted as they are trained on.

    `accuracy` is the share of pairs whose likelier answer has the higher score, a margin of 0 counted half, of
    `decided_pairs`; ties have none. `calibration_error` is the mean distance between the promised probability and the
    share of judgements.
    """
    first, judged = np.array([each.first for each in pairs]), np.array([each.judged for each in pairs])
    weight = np.array([each.weight for each in pairs])
    losses = first * np.logaddexp(0.0, -margins) + (1.0 - first) * np.logaddexp(0.0, margins)
    promised = 1.0 / (1.0 + np.exp(-margins))
    named = {"calibration_error": calibration_error(promised, judged, weight)}
    decided = first != 0.5
    if decided.any():
        right = np.where(margins == 0, 0.5, (margins > 0) == (first > 0.5))
        named["accuracy"] = float(np.average(right[decided], weights=weight[decided]))
        named[DECIDED] = float(decided.sum())
    return Metrics(float((weight * losses).sum()), len(pairs), named=named)


def temperature(margins: npt.NDArray[np.float64], pairs: Sequence[Comparison]) -> float:
    """Return the number to divide the margins [pairs] by, so that they predict the shares of judgements best.

    It has the lowest cross-entropy under the prior (temperature scaling: Guo et al. 2017, section 4.2).
    """
    judged, weight = np.array([each.judged for each in pairs]), np.array([each.weight for each in pairs])
    scaled = margins / np.exp2(EXPONENTS)[:, None]
    losses = (weight * (np.logaddexp(0.0, scaled) - judged * scaled)).sum(1) + 0.5 * (EXPONENTS / SPREAD) ** 2
    return float(np.exp2(EXPONENTS[np.argmin(losses)]))


def calibration_error(
    promised: npt.NDArray[np.float64], judged: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
) -> float:
    """Return the mean over pairs of |promised - judged| of their bin, by the promised probability, 0 … 1."""
    bins = np.minimum((promised * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=weight * (promised - judged), minlength=BINS)
    return float(np.abs(gaps).sum() / weight.sum())
