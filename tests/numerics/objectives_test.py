"""Any objective gives the same bits on any number of ranks: its losses and coefficients follow from a leaf alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.numerics.gang import Group, Recipe, RowBatch, Tensors, on_ranks, snapshot
from tutti.model.batch import CheckedBatch
from tutti.model.chunks import Layout
from tutti.model.objective import NextToken, Objective
from tutti.model.plan import OPTIMIZER, Plan, Shape
from tutti.model.step import RankStep
from tutti.model.transformer import Transformer

STEPS = 3


@dataclass(frozen=True)
class Pairs(RowBatch):
    """Row 2i is preferred to row 2i + 1; `reference` are log-probabilities that were recorded."""

    reference: Any


class Preference:
    """Direct preference optimisation: an objective that needs a whole row, and counts pairs."""

    def losses(
        self, transformer: Transformer, tokens: Tensor, documents: Tensor, valid: Tensor, batch: CheckedBatch
    ) -> tuple[Tensor, Tensor]:
        assert isinstance(batch.leaf, Pairs)
        reference, mask = torch.from_numpy(batch.leaf.reference).flatten(), valid.flatten().float()
        shape = valid.shape

        def weigh(chances: Tensor) -> tuple[Tensor, Tensor]:
            sums = ((chances - reference) * mask).view(shape).sum(1)
            margins = 0.1 * (sums[0::2] - sums[1::2])
            push = 0.1 * torch.sigmoid(-margins)
            losses = torch.zeros(shape)
            losses[0::2, 0] = F.softplus(-margins)
            by_row = torch.stack([-push, push], 1).flatten()
            return losses.flatten(), (by_row[:, None] * mask.view(shape)).flatten()

        return transformer.weighted_losses(tokens, documents, weigh)

    def count(self, batch: CheckedBatch) -> int:
        return len(batch.valid) // 2


def pairs(recipe: Recipe, step: int, leaf: int) -> Pairs:
    rows = recipe.batch(step, leaf)
    source = np.random.Generator(np.random.Philox(key=np.array([step, leaf], dtype=np.uint64)))
    reference = source.normal(-6, 0.5, rows.valid.shape).astype(np.float32)
    return Pairs(rows.tokens, rows.documents, rows.valid, reference)


def trained(dp: int, objective: Objective, shard: str = OPTIMIZER) -> tuple[Tensors, list[tuple[str, int]]]:
    """The state after a few steps on `dp` ranks, and of each step the loss, in hexadecimal, and what it counted."""
    recipe = Recipe()

    def work(rank: int, group: Group) -> tuple[Tensors, list[tuple[str, int]]]:
        plan = Plan(Layout(recipe.model), Shape(dp, shard=shard), recipe.step.leaves)
        me = RankStep(
            recipe.model,
            recipe.optimizer,
            recipe.step,
            plan,
            rank=rank,
            epoch=1,
            group=group,
            audit_every=2,
            objective=objective,
        )
        me.initialize()
        results = [
            me.run(step, {leaf: pairs(recipe, step, leaf) for leaf in me.leaves_needed(step)})
            for step in range(1, STEPS + 1)
        ]
        return snapshot(me), [(result.loss.hex(), result.tokens) for result in results]

    found = on_ranks(dp, work)
    return {key: data for part, _ in found for key, data in part.items()}, found[0][1]


def test_a_preference_over_pairs_gives_the_same_state_on_any_number_of_ranks() -> None:
    one, two, three = (trained(dp, Preference()) for dp in (1, 2, 3))
    assert one == two == three
    recipe = Recipe()
    assert {count for _, count in one[1]} == {recipe.step.leaves * recipe.step.rows // 2}
    assert trained(1, NextToken())[0] != one[0]  # the control: another objective moves the state elsewhere
