"""All ranks read the same records and conclude the same."""

import math

import numpy as np
import pytest

from tutti.model.chunks import Layout
from tutti.model.chunks_test import SMALL
from tutti.model.plan import Plan, Shape
from tutti.model.results import Outcome, StepMismatch
from tutti.model.vote import Record, Tally, decide, record_lengths, write_record

PLAN = Plan(Layout(SMALL, 1024), Shape(3), 8)


def records(*, loss: float = 30.0, square: float = 4.0, tokens: int = 10) -> list[Record]:
    return [
        write_record(
            step=5,
            epoch=2,
            busy=0.1 * rank,
            summing=0.01,
            tallies={leaf: Tally(loss, tokens) for leaf in PLAN.leaves_of(rank)},
            squares=[square] * len(PLAN.chunks_of(rank)),
        )
        for rank in PLAN.ranks
    ]


def test_records_have_the_lengths_that_everybody_expects() -> None:
    assert [len(record) for record in records()] == record_lengths(PLAN)


def test_sums_are_divided_once_by_all_valid_tokens() -> None:
    verdict = decide(PLAN, records())
    assert (verdict.outcome, verdict.count, verdict.loss) == (Outcome.COMMITTED, 80, 3.0)
    assert verdict.gradient_norm == pytest.approx(math.sqrt(4 * len(PLAN.layout.chunks)) / 80)
    assert (verdict.busy, verdict.summing) == ((0.0, 0.1, 0.2), (0.01, 0.01, 0.01))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite_makes_all_skip(value: float) -> None:
    for slot in (4, -1):
        spoiled = records()
        spoiled[1][slot] = value
        assert decide(PLAN, spoiled).outcome is Outcome.SKIPPED


def test_a_step_without_a_valid_token_is_skipped() -> None:
    assert decide(PLAN, records(loss=0.0, square=0.0, tokens=0)).outcome is Outcome.SKIPPED


def test_a_step_with_one_valid_token_counts() -> None:
    one = records(loss=0.0, square=0.0, tokens=0)
    one[0][4 + len(PLAN.leaves_of(0))] = 1
    verdict = decide(PLAN, one)
    assert (verdict.outcome, verdict.count, verdict.gradient_norm) == (Outcome.COMMITTED, 1, 0.0)


def test_squares_that_are_negative_have_no_norm() -> None:
    assert math.isnan(decide(PLAN, records(square=-1e-3)).gradient_norm)


def test_a_rank_at_another_step_is_named() -> None:
    other = records()
    other[2][0] = 6
    with pytest.raises(StepMismatch, match=r"rank 0: step 5, epoch 2; .*rank 2: step 6, epoch 2"):
        decide(PLAN, other)


def test_a_rank_of_another_epoch_is_named() -> None:
    other = records()
    other[0][1] = 1
    with pytest.raises(StepMismatch, match="rank 0: step 5, epoch 1"):
        decide(PLAN, other)


def test_the_verdict_does_not_depend_on_the_number_of_ranks() -> None:
    source = np.random.default_rng(0)
    losses, squares = source.standard_normal(8), source.random(len(PLAN.layout.chunks))
    seen = set()
    for dp in (1, 2, 3, 5, 8):
        plan = Plan(PLAN.layout, Shape(dp), 8)
        spread = [
            write_record(
                step=1,
                epoch=1,
                busy=0,
                summing=0,
                tallies={leaf: Tally(float(losses[leaf]), leaf) for leaf in plan.leaves_of(rank)},
                squares=[float(squares[chunk.index]) for chunk in plan.chunks_of(rank)],
            )
            for rank in plan.ranks
        ]
        verdict = decide(plan, spread)
        seen.add((verdict.loss, verdict.gradient_norm, verdict.count))
    assert len(seen) == 1
