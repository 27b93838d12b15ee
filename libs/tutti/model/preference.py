"""Objectives over pairs of answers: a reward model's, and direct preference optimisation.

Both fit a margin m to the probability p that the first answer is the better one. The loss of a pair of weight w is
w · (p log(1 + exp(-m)) + (1 - p) log(1 + exp(m))), its derivative by m is w · (sigmoid(m) - p); see Bradley and Terry
1952, and Rafailov et al. 2023, equation 7. Rows 2i and 2i + 1 of a leaf are the first and the second answer of its i-th
pair, so a margin never leaves its leaf.
"""

from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.batch import BatchError, CheckedBatch
from tutti.model.transformer import Transformer


@runtime_checkable
class PairLeaf(Protocol):
    """A leaf of pairs beside its tokens: what was judged, and what was computed of them before."""

    @property
    def first(self) -> npt.NDArray[Any]:
        """The probability that the first answer is the better one, float32[pairs]."""

    @property
    def weight(self) -> npt.NDArray[Any]:
        """The weight of each pair, float32[pairs]; 0 for padding."""

    @property
    def pooled(self) -> npt.NDArray[Any]:
        """The positions whose tokens are an answer's, bool[rows, context]."""

    @property
    def reference(self) -> npt.NDArray[Any]:
        """Log-probabilities of the next tokens by the reference, float32[rows, context]; empty where there is none."""


def pairs_of(batch: CheckedBatch) -> PairLeaf:
    """The leaf of a batch. Raises BatchError where it is none of pairs."""
    if not isinstance(batch.leaf, PairLeaf) or 2 * len(batch.leaf.first) != len(batch.valid):
        raise BatchError(f"a batch of {len(batch.valid)} rows without preferences; expected two rows for each")
    return batch.leaf


def fitted(margins: Tensor, leaf: PairLeaf) -> tuple[Tensor, Tensor]:
    """Return the loss of each margin and its derivative by the margin, float32[pairs] each."""
    first, weight = (torch.from_numpy(each).to(margins.device) for each in (leaf.first, leaf.weight))
    losses = weight * (first * F.softplus(-margins) + (1.0 - first) * F.softplus(margins))
    return losses, weight * (torch.sigmoid(margins) - first)


def by_row(of_pairs: Tensor) -> Tensor:
    """Spread the derivative of each margin over its two rows: plus for the first, minus for the second, [2 · pairs]."""
    return torch.stack([of_pairs, -of_pairs], 1).flatten()


def at_pairs(losses: Tensor, shape: torch.Size) -> Tensor:
    """The losses of pairs as those of positions, float32[rows · context]: at the first position of each first row."""
    found = torch.zeros(shape, device=losses.device)
    found[0::2, 0] = losses
    return found.flatten()


class Pairs:
    """Counts pairs, and not those that pad a leaf."""

    def count(self, batch: CheckedBatch) -> int:
        return int((pairs_of(batch).weight > 0).sum())


class RewardPairs(Pairs):
    """Fits the difference of two scores of the scalar head."""

    def losses(
        self, transformer: Transformer, tokens: Tensor, documents: Tensor, valid: Tensor, batch: CheckedBatch
    ) -> tuple[Tensor, Tensor]:
        leaf = pairs_of(batch)
        scores = transformer.scores(tokens, documents, torch.from_numpy(leaf.pooled).to(tokens.device))
        losses, slopes = fitted((scores[0::2] - scores[1::2]).detach(), leaf)
        return (scores * by_row(slopes)).sum(), at_pairs(losses, valid.shape)


class DirectPreference(Pairs):
    """Fits `beta` times the difference of two log-ratios between the model and the reference."""

    def __init__(self, beta: float) -> None:
        self._beta = beta

    def losses(
        self, transformer: Transformer, tokens: Tensor, documents: Tensor, valid: Tensor, batch: CheckedBatch
    ) -> tuple[Tensor, Tensor]:
        leaf = pairs_of(batch)

        def weigh(chances: Tensor) -> tuple[Tensor, Tensor]:
            losses, slopes = fitted(self.margins(chances, valid, leaf), leaf)
            coefficients = by_row(self._beta * slopes)[:, None] * valid
            return at_pairs(losses, valid.shape), coefficients.flatten()

        return transformer.weighted_losses(tokens, documents, weigh)

    def margins(self, chances: Tensor, valid: Tensor, leaf: PairLeaf) -> Tensor:
        """Return the margin of each pair, float32[pairs], from the log-probabilities of next tokens."""
        reference = torch.from_numpy(leaf.reference).to(chances.device)
        ratios = ((chances.view(valid.shape) - reference) * valid).sum(1)
        return self._beta * (ratios[0::2] - ratios[1::2])
