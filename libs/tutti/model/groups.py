"""Groups of rollouts: advantages within a group, and how an iteration's rollouts are dealt to leaves.

Promises: both follow from the rewards and from global numbers, never from who rolled out. Does not import torch.
"""

import numpy as np
import numpy.typing as npt

from tutti.corpus.tokens.permutation import Permutation
from tutti.records.canonical import keyed_bytes

Integers = npt.NDArray[np.int64]
EPSILON = 1e-4
NOBODY = -1


def advantages(
    rewards: npt.NDArray[np.float64], least_spread: float = 0.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return each rollout's advantage, and whether its group is kept; all [prompts, group].

    An advantage is the distance from the group's mean in its standard deviations, or in units of `least_spread` where
    that is more. A group of equal rewards is not kept.
    """
    kept = rewards.max(1) != rewards.min(1)
    centred = rewards - rewards.mean(1, keepdims=True)
    scaled = centred / (np.maximum(rewards.std(1, keepdims=True), least_spread) + EPSILON)
    return np.where(kept[:, None], scaled, 0.0), np.repeat(kept[:, None], rewards.shape[1], 1)


def dealt(
    kept: Integers, *, group: int, minibatches: int, leaves: int, rows: int, key: tuple[int, int, int]
) -> Integers:
    """Return the rollout in each row, int64 [minibatches, leaves, rows]; NOBODY where there are fewer than rows.

    `kept` are the rollouts to deal, int64 [n], whole groups of `group` in a row; `key` is (seed, iteration, epoch). The
    groups are shuffled, then cut into minibatches and leaves of equal numbers of rollouts, or one fewer. So rows that
    share a prompt are in one leaf, but for those at a cut.
    """
    name = keyed_bytes("minibatches", *(part.to_bytes(8, "little") for part in key))
    table = np.full((minibatches, leaves, rows), NOBODY, np.int64)
    if len(kept):
        groups = kept.reshape(-1, group)
        order = groups[Permutation(len(groups), name).forward(np.arange(len(groups), dtype=np.int64))]
        for minibatch, part in enumerate(np.array_split(order.ravel(), minibatches)):
            for leaf, own in enumerate(np.array_split(part, leaves)):
                table[minibatch, leaf, : len(own)] = own
    return table
