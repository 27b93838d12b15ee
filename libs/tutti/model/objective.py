"""Objectives: what the ranks minimise, as a loss and a gradient for each token of a leaf.

The step is the same for every objective: the gradients of leaves are summed in one tree and divided once, by the
integer that the objective counts (tokens, pairs).
"""

from typing import Protocol

from torch import Tensor

from tutti.model.batch import CheckedBatch
from tutti.model.transformer import Transformer


class Objective(Protocol):
    """A pure function of the model, a leaf's batch and what the batch recorded."""

    def losses(
        self, transformer: Transformer, tokens: Tensor, documents: Tensor, valid: Tensor, batch: CheckedBatch
    ) -> tuple[Tensor, Tensor]:
        """Return what to call backward() on, and the losses of the positions, float32[rows · context].

        tokens, documents: int64[rows, context + 1]; valid: bool[rows, context], on the model's device. `batch.leaf` is
        the batch as it was given, with whatever its program recorded in it.
        """
        ...

    def count(self, batch: CheckedBatch) -> int:
        """Return what the sum of the step's losses and gradients is divided by, this leaf's share of it."""
        ...


class NextToken:
    """The cross-entropy of every valid next token, in nats. A loss mask is the batch's `valid`."""

    def losses(
        self, transformer: Transformer, tokens: Tensor, documents: Tensor, valid: Tensor, batch: CheckedBatch
    ) -> tuple[Tensor, Tensor]:
        return transformer.token_losses(tokens, documents, valid)

    def count(self, batch: CheckedBatch) -> int:
        return int(batch.valid.sum())
