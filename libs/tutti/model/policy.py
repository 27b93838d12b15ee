"""The clipped objective of a policy with a KL penalty for each token (Schulman et al. 2017; Shao et al. 2024, eq. 4).

Promises: losses and coefficients follow from a leaf and its log-probabilities alone. The sum over tokens is divided
once, by the number of valid tokens of the step.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tutti.model.answers import Answers, Placed, answers_of
from tutti.model.batch import CheckedBatch
from tutti.model.transformer import Transformer

Floats = npt.NDArray[np.float32]


@dataclass
class Clipped:
    """Tokens whose gradient was cut by the clipping, of those that were computed; for reports and checks alone.

    `apart` is the largest difference between a token's log-probability and the old one, in nats.
    """

    tokens: int = 0
    clipped: int = 0
    apart: float = 0.0


@dataclass(frozen=True, eq=False)
class Valued:
    """The targets of the value model, which is trained beside the policy.

    `values` and `returns` are float32 [rows, context] in units of reward, at the position that a token is predicted
    from. `clip` is the half width of the interval around an old value, `weight` the factor of the loss.
    """

    values: Floats
    returns: Floats
    clip: float
    weight: float


@dataclass(frozen=True, eq=False)
class PolicyLeaf:
    """Rollouts, one a row, and the numbers that were recorded with them.

    `old`, `reference` and `advantages` are float32 [rows, context], at the position that a token is predicted from, in
    nats or without unit; 0 where `valid` is not set. `clip` is the half width of the interval around a ratio of 1, `kl`
    the coefficient of the penalty. `prompt` and `answer` are the lengths of the iteration's longest prompt and answer.
    `valued` is set where the state has a value model. `entropy` is the coefficient of the entropy bonus.
    """

    tokens: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    old: Floats
    reference: Floats
    advantages: Floats
    clip: float
    kl: float
    prompt: int
    answer: int
    clipped: Clipped = field(default_factory=Clipped)
    valued: Valued | None = None
    entropy: float = 0.0

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows to compute: those with a rollout, or the first one."""
        found: npt.NDArray[np.int64] = np.flatnonzero(self.valid.any(1))
        return found if len(found) else np.zeros(1, np.int64)

    @property
    def answers(self) -> Answers:
        """The answers of `rows`. Raises BatchError."""
        rows = self.rows
        return answers_of(self.tokens[rows], self.valid[rows].argmax(1), prompt=self.prompt, answer=self.answer)


class ClippedPolicy:
    """For leaves of rollouts; of the policy and, where a leaf is `valued`, of the value model.

    The entropy bonus (Williams and Peng 1991; Schulman et al. 2017, eq. 9) is `entropy` times the entropy of the policy
    at each token of an answer, in nats. The entropy is estimated by the token that was sampled, -r log p, where p is
    its probability and r = p / old its ratio: over the tokens that the old policy could have sampled, the mean of the
    estimate is the entropy, and the mean of its derivative -r (log p + 1) gives the gradient of the entropy. It is not
    clipped.
    """

    def losses(
        self, transformer: Transformer, tokens: Tensor, documents: Tensor, valid: Tensor, batch: CheckedBatch
    ) -> tuple[Tensor, Tensor]:
        leaf = batch.leaf
        assert isinstance(leaf, PolicyLeaf)
        rows, answers = leaf.rows, leaf.answers

        def seen(table: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(answers.window(table[rows])).flatten().to(tokens.device)

        old, reference, advantages, mask = (
            seen(each) for each in (leaf.old, leaf.reference, leaf.advantages, leaf.valid)
        )

        def weigh(chances: Tensor) -> tuple[Tensor, Tensor]:
            chances = torch.where(mask, chances, 0.0)  # exp of a padding position may overflow
            ratio = torch.exp(chances - old)
            inside = ratio.clamp(1 - leaf.clip, 1 + leaf.clip)
            free = ratio * advantages <= inside * advantages
            gap = torch.exp(reference - chances)
            losses = -torch.minimum(ratio * advantages, inside * advantages)
            losses = losses + leaf.kl * (gap - (reference - chances) - 1)
            coefficients = torch.where(free, -advantages * ratio, 0.0) + leaf.kl * (1 - gap)
            if leaf.entropy:
                losses = losses + leaf.entropy * ratio * chances
                coefficients = coefficients + leaf.entropy * ratio * (chances + 1)
            leaf.clipped.tokens = int(mask.sum())
            leaf.clipped.clipped = int((mask & ~free).sum())
            leaf.clipped.apart = float(torch.where(mask, chances - old, 0.0).abs().max().detach())
            return torch.where(mask, losses, 0.0), torch.where(mask, coefficients, 0.0)

        placed = Placed(answers, transformer.device, transformer.dtype)
        total, losses = transformer.answer_losses(placed, weigh)
        if leaf.valued is None:
            return total, losses
        values = transformer.answer_values(placed)
        old_values, returns = seen(leaf.valued.values), seen(leaf.valued.returns)
        of_values, slopes = fitted_values(values.detach(), mask, old_values, returns, leaf.valued)
        return total + (values * slopes).sum(), losses + of_values

    def count(self, batch: CheckedBatch) -> int:
        return int(batch.valid.sum())


def fitted_values(values: Tensor, mask: Tensor, old: Tensor, returns: Tensor, valued: Valued) -> tuple[Tensor, Tensor]:
    """Return the clipped squared errors of values and their derivatives by the values, float32[positions] each.

    `old` and `returns` are those of `valued` at these positions. The loss is half the larger of the squared errors of
    the value and of the value clipped to the interval around the old one, times the weight; 0 where `mask` is not set.
    """
    inside = old + (values - old).clamp(-valued.clip, valued.clip)
    error, clipped = values - returns, inside - returns
    free = error.square() >= clipped.square()
    losses = 0.5 * valued.weight * torch.where(free, error, clipped).square()
    slopes = valued.weight * torch.where(free, error, 0.0)
    return torch.where(mask, losses, 0.0), torch.where(mask, slopes, 0.0)
