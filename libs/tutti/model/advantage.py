"""Generalised advantage estimation (Schulman et al. 2016, equation 16), and the whitening of a batch of advantages.

Promises: both follow from rewards and values in the order of rollouts, never from who computed them: sums are taken in
one tree. Does not import torch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tutti.model.tree import tree_sum

Floats = npt.NDArray[np.float64]
EPSILON = 1e-6


def generalised(values: Floats, reward: float, *, discount: float, trace: float) -> Floats:
    """Return the advantage of each token of an answer, float64 [tokens].

    `values` are those of the positions that the tokens were chosen at, [tokens]; the reward comes with the last token,
    and nothing after it. `trace` is lambda: 0 trusts the values, 1 the reward.
    """
    found, after, following = np.zeros(len(values)), 0.0, 0.0
    for place in range(len(values) - 1, -1, -1):
        gained = reward if place == len(values) - 1 else 0.0
        following = gained + discount * after - values[place] + discount * trace * following
        found[place], after = following, values[place]
    return found


def whitened(advantages: Sequence[Floats], least_spread: float = 0.0) -> list[Floats]:
    """Return the advantages of all answers of a batch with mean 0 over its tokens, and standard deviation 1, or less
    where theirs is below `least_spread`.
    """
    tokens = sum(len(each) for each in advantages)
    mean = _tree([each.sum() for each in advantages]) / tokens
    spread = np.sqrt(_tree([((each - mean) ** 2).sum() for each in advantages]) / tokens)
    return [(each - mean) / (max(spread, least_spread) + EPSILON) for each in advantages]


def _tree(parts: Sequence[float]) -> float:
    return tree_sum(np.array(parts, np.float64))
