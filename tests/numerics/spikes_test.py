"""Spikes in a training: all ranks decide the same, a skipped step changes nothing, also in a resumed attempt."""

from dataclasses import dataclass, replace
from functools import cache

import pytest

from tutti.model.results import Outcome, SkipCause
from tutti.model.spec import OptimizerSpec, StepSpec
from tutti.model.spikes import FEWEST, OBSERVE, OFF, REWIND, SKIP

from .gang import MODEL, Recipe, RowBatch, Trained, train

FIRST, LAST, STEPS = FEWEST + 2, FEWEST + 4, FEWEST + 6
SPIKE = range(FIRST, LAST + 1)


@dataclass(frozen=True)
class Spiky(Recipe):
    """A training on three tokens, that reads all of the vocabulary in the steps of a spike."""

    def batch(self, step: int, leaf: int) -> RowBatch:
        batch = super().batch(step, leaf)
        return batch if step in SPIKE else replace(batch, tokens=batch.tokens % 3)


RECIPE = Spiky(
    model=replace(MODEL, layers=1, width=16, heads=2, hidden=32, context=16),
    optimizer=OptimizerSpec(peak_rate=2e-2, steps=STEPS, warmup_steps=2),
    step=StepSpec(leaves=3, rows=1, seed=7),
    audit_every=0,
)


@cache
def trained(spikes: str, ranks: int = 1, shard: str = "optimizer") -> Trained:
    return train(replace(RECIPE, spikes=spikes), ranks, until=STEPS, shard=shard)


@pytest.mark.parametrize(("ranks", "shard"), [(2, "optimizer"), (3, "parameters")])
def test_any_number_of_ranks_finds_and_skips_the_same_spike(ranks: int, shard: str) -> None:
    alone, together = trained(SKIP), trained(SKIP, ranks, shard)
    assert together.digests == alone.digests
    assert [each.spike for each in together.results] == [each.spike for each in alone.results]
    assert {each.step: each.skip for each in alone.results if each.skip} == dict.fromkeys(SPIKE, SkipCause.SPIKE)
    (spike,) = (each.spike for each in alone.results if each.spike)
    assert (spike.first, spike.last) == (FIRST, LAST)


def test_a_skipped_step_changes_neither_parameters_nor_moments() -> None:
    states = trained(SKIP).checkpoints
    for step in SPIKE:
        assert states[step].tensors == states[FIRST - 1].tensors
        assert states[step].scalars.updates == FIRST - 1
    assert states[LAST + 1].tensors != states[FIRST - 1].tensors


def test_a_training_that_goes_back_is_until_then_one_that_skips() -> None:
    assert trained(REWIND).digests == trained(SKIP).digests


def test_an_attempt_that_resumes_within_a_spike_with_other_ranks_decides_the_same() -> None:
    whole, cut = trained(SKIP), FIRST + 1
    again = train(replace(RECIPE, spikes=SKIP), 2, until=STEPS, since=whole.checkpoints[cut])
    assert again.last.state_digest == whole.last.state_digest
    assert [each.spike for each in again.results] == [each.spike for each in whole.results[cut:]]


def test_observing_changes_no_tensor_and_off_remembers_nothing() -> None:
    off, observed = trained(OFF), trained(OBSERVE)
    assert observed.last.tensors == off.last.tensors
    assert all(each.outcome is Outcome.COMMITTED for each in observed.results)
    (spike,) = (each.spike for each in observed.results if each.spike)
    losses, norms = _heights(observed)
    assert (spike.first, spike.last) == (FIRST, LAST)
    assert (spike.loss, spike.norm) == pytest.approx((max(losses), max(norms)), rel=1e-9)
    assert all(each.spike is None for each in off.results)
    assert {each.scalars.watch for each in off.checkpoints.values()} == {None}


def test_a_spike_that_lasts_to_the_end_of_the_training_is_told_with_its_last_step() -> None:
    short = replace(RECIPE, spikes=OBSERVE, optimizer=replace(RECIPE.optimizer, steps=LAST - 1))
    *_, last = train(short, 1, until=LAST - 1).results
    assert last.spike is not None
    assert (last.spike.first, last.spike.last) == (FIRST, LAST - 1)


def _heights(of: Trained) -> tuple[list[float], list[float]]:
    """Loss and gradient norm of the steps of the spike, in medians of the steps before."""
    watch = of.checkpoints[FIRST - 1].scalars.watch
    assert watch is not None
    results = [each for each in of.results if each.step in SPIKE]
    losses, norms = sorted(watch.losses), sorted(watch.norms)
    middle = [(each[(len(each) - 1) // 2] + each[len(each) // 2]) / 2 for each in (losses, norms)]
    return [each.loss / middle[0] for each in results], [each.gradient_norm / middle[1] for each in results]
