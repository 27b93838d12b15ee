"""A fork server whose ranks compute wrongly: the seed of a training says how, from which step on and which rank.

Run by `tests/trainer/audits_test.py` in place of `tutti.trainer.rank.forkserver`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import torch

from tutti.model.batch import LeafBatch
from tutti.model.results import StepResult
from tutti.model.step import RankStep
from tutti.trainer.rank.forkserver import main

GUILTY, BEGUN = 2, 3
OTHER = 0
"""The second guilty rank of Plant.TWO."""


class Plant(IntEnum):
    """What goes wrong on the guilty rank, in every step from BEGUN on; the value is the seed of the training."""

    GRADIENT_NAN = 101
    LOSS_NAN = 102
    FLIP = 103
    PARAMETERS = 104
    TWO = 105


def plant(step: RankStep, kind: Plant) -> None:
    """From now on every leaf of this rank is wrong."""
    backward, places = step._gradients._backward, iter(range(step.rank, 10**6))

    def wrong(batch: Any, target: Any, *, onto: bool) -> Any:
        tally = backward(batch, target, onto=onto)
        if kind is Plant.GRADIENT_NAN:
            target.vector[3] = float("nan")
        elif kind in (Plant.FLIP, Plant.TWO):
            target.vector.view(torch.int32)[next(places) % 1000] ^= 1 << 20
        return dataclasses.replace(tally, loss=float("nan")) if kind is Plant.LOSS_NAN else tally

    step._gradients._backward = wrong  # type: ignore[method-assign]


run = RankStep.run


def planted_run(
    self: RankStep, step: int, leaves: Mapping[int, LeafBatch], fetch: Callable[[int], LeafBatch] | None = None
) -> StepResult:
    seed = self.step_spec.seed
    if seed in set(Plant) and step >= BEGUN and (self.rank == GUILTY or (seed == Plant.TWO and self.rank == OTHER)):
        if seed == Plant.PARAMETERS:
            self.parameters.view(torch.int32)[7] ^= 1 << 20
        elif step == BEGUN:
            plant(self, Plant(seed))
    return run(self, step, leaves, fetch)


if __name__ == "__main__":
    RankStep.run = planted_run  # type: ignore[method-assign]
    main()
