"""Every rank crosses a step or nobody does, and what is wrong is named."""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from tutti.model.batch import checked
from tutti.model.chunks import Layout
from tutti.model.exchange import Exchange
from tutti.model.fingerprint import as_bytes
from tutti.model.gradients import Gradients
from tutti.model.objective import NextToken
from tutti.model.parameters import Replicated
from tutti.model.plan import Plan, Shape
from tutti.model.results import AuditFailed, Finding, Outcome, Scalars, SkipCause, StepAborted
from tutti.model.step import RankStep
from tutti.model.transformer import Transformer

from .gang import Group, Recipe, on_ranks, snapshot, start, step_once, train

RECIPE = Recipe()
QUIET = replace(RECIPE, audit_every=0)


def flip(gradient: torch.Tensor, at: int) -> None:
    gradient.view(torch.int32)[at] ^= 1 << 20


def aborted(me: Any, recipe: Recipe, step: int) -> tuple[str, str, bool]:
    """The type and message of what a step raised, and whether the state stayed as it was."""
    before = snapshot(me)
    try:
        step_once(me, recipe, step)
    except StepAborted as error:
        return type(error).__name__, str(error), snapshot(me) == before
    return "", "", False


def test_control_plain_accumulation_gives_other_bits_on_other_numbers_of_ranks() -> None:
    """What everybody does: add leaf after leaf, then all-reduce."""

    def work(rank: int, group: Group) -> tuple[str, str]:
        me, model = start(QUIET, max(1, group_size(group)), rank, group), RECIPE.model
        me.initialize()
        plan, total = me.plan, torch.zeros(Layout(model).elements)
        held = Replicated(
            plan, Exchange(group, rank=rank, ranks=len(plan.ranks)), device=me.device, dtype=torch.float32
        )
        held.vector.copy_(me.parameters)
        bound = Transformer.of_units(plan.layout, held.units, device=me.device, dtype=torch.float32, compiled=False)
        gradients = Gradients(plan.layout, bound, NextToken(), held)
        for leaf in plan.leaves_of(rank):
            sums = gradients.new_sums(1)
            gradients.add_leaf(sums, 0, checked(RECIPE.batch(1, leaf), model, RECIPE.step.rows, ""))
            total += sums.total().vector
            gradients.release(sums)
        if group is not None:
            dist.all_reduce(total, group=group)
        step_once(me, QUIET, 1)
        state = b"".join(snapshot(me)[key] for key in sorted(snapshot(me)))
        return hashlib.sha256(as_bytes(total).tobytes()).hexdigest(), hashlib.sha256(
            state
        ).hexdigest() if rank == 0 else ""

    def group_size(group: Group) -> int:
        return 0 if group is None else dist.get_world_size(group)

    sums = {dp: on_ranks(dp, work)[0][0] for dp in (1, 2, 4)}
    assert len(set(sums.values())) == 3
    assert len({train(QUIET, dp, until=1).last.state_digest for dp in (1, 2, 4)}) == 1


def test_leaves_that_are_not_finite_on_two_ranks_make_all_skip_and_the_run_goes_on() -> None:
    def work(rank: int, group: Group) -> Any:
        me = start(QUIET, 3, rank, group)
        me.initialize()
        outcomes = [step_once(me, QUIET, 1).outcome]
        before = snapshot(me)
        me.parameters[100] = float("inf")
        outcomes.append(step_once(me, QUIET, 2).outcome)
        unchanged = snapshot(me) == before
        outcomes.append(step_once(me, QUIET, 3).outcome)
        return outcomes, unchanged, me.scalars()

    for outcomes, unchanged, scalars in on_ranks(3, work):
        assert outcomes == [Outcome.COMMITTED, Outcome.SKIPPED, Outcome.COMMITTED]
        assert unchanged
        assert scalars == Scalars(step=3, skipped=(2,))


def test_a_bit_flipped_in_one_ranks_parameters_is_named_by_step_chunk_and_rank() -> None:
    plan = Plan(Layout(RECIPE.model), Shape(3), RECIPE.step.leaves)
    chunk = plan.layout.chunks[4]

    def work(rank: int, group: Group) -> Any:
        me = start(RECIPE, 3, rank, group)
        me.initialize()
        step_once(me, RECIPE, 1)
        if rank == 2:
            me.parameters.view(torch.int32)[plan.layout.offsets[4] + 11] ^= 1 << 3
        return aborted(me, RECIPE, 2)

    for name, message, unchanged in on_ranks(3, work):
        assert name == "AuditFailed"
        assert message.startswith("step 2: rank 2 computes wrongly")
        assert f"chunk 4 ({chunk.name})" in message
        assert unchanged


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_rank_that_flips_a_bit_of_every_gradient_is_found_by_the_next_audit(ranks: int, shard: str) -> None:
    def work(rank: int, group: Group) -> Any:
        me = start(RECIPE, ranks, rank, group, shard=shard)
        me.initialize()
        step_once(me, RECIPE, 1)
        before = snapshot(me)
        if rank == ranks - 1:
            plant(me)
        try:
            step_once(me, RECIPE, 2)
        except AuditFailed as error:
            return error.finding, snapshot(me) == before
        return Finding(), False

    guilty = ranks - 1
    expected = {1: Finding(convicted=(0,)), 2: Finding(disagreements=((0, 1), (1, 0)))}
    for found in on_ranks(ranks, work):
        assert found == (expected.get(ranks, Finding(convicted=(guilty,))), True)


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("change", ["gradient", "loss"])
def test_a_rank_that_alone_gets_what_is_not_finite_is_convicted_in_that_step(
    change: str, ranks: int, shard: str
) -> None:
    guilty = ranks - 1

    def work(rank: int, group: Group) -> Any:
        me = start(QUIET, ranks, rank, group, shard=shard)
        me.initialize()
        before = snapshot(me)
        if rank == guilty and change == "gradient":
            plant(me, lambda gradient, at: gradient[at : at + 1].fill_(float("nan")))
        elif rank == guilty:
            plant(me, lambda gradient, at: None, loss=float("nan"))
        try:
            step_once(me, QUIET, 1)
        except AuditFailed as error:
            return error.step, error.finding, snapshot(me) == before
        return None

    assert on_ranks(ranks, work) == [(1, Finding(convicted=(guilty,)), True)] * ranks


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_sum_that_overflows_is_no_fault_of_a_rank(ranks: int) -> None:
    def work(rank: int, group: Group) -> Any:
        me = start(QUIET, ranks, rank, group)
        me.initialize()
        plant(me, lambda gradient, at: gradient[:1].fill_(3e38))
        return step_once(me, QUIET, 1).skip

    assert on_ranks(ranks, work) == [SkipCause.OVERFLOW] * ranks


def test_a_step_without_valid_tokens_is_skipped_as_such() -> None:
    def work(rank: int, group: Group) -> Any:
        me = start(QUIET, 2, rank, group)
        me.initialize()
        leaves = {leaf: QUIET.batch(1, leaf) for leaf in me.leaves_needed(1)}
        padding = {leaf: replace(each, valid=np.zeros_like(each.valid)) for leaf, each in leaves.items()}
        return me.run(1, padding).skip

    assert on_ranks(2, work) == [SkipCause.NO_TOKENS] * 2


def plant(me: RankStep, change: Callable[[torch.Tensor, int], object] = flip, *, loss: float | None = None) -> None:
    """From now on every gradient of this rank is changed, at another element each time, or every loss is this one."""
    backward, times = me._gradients._backward, iter(range(1, 1000))

    def changed(batch: Any, target: Any, *, onto: bool) -> Any:
        tally = backward(batch, target, onto=onto)
        change(target.vector, next(times))
        return tally if loss is None else replace(tally, loss=loss)

    me._gradients._backward = changed  # type: ignore[method-assign]


def test_ranks_at_different_steps_abort_and_are_named() -> None:
    def work(rank: int, group: Group) -> Any:
        me = start(QUIET, 3, rank, group)
        me.initialize()
        zeros = memoryview(bytes(4 * max(chunk.length for chunk in me.plan.layout.chunks)))
        me.load(
            lambda chunk, kind: zeros[: 4 * me.plan.layout.chunks[chunk].length], Scalars(step=5 if rank == 2 else 4)
        )
        return aborted(me, QUIET, me.scalars().step + 1)

    for name, message, unchanged in on_ranks(3, work):
        assert name == "StepMismatch"
        assert "rank 0: step 5, epoch 1; rank 1: step 5, epoch 1; rank 2: step 6, epoch 1" in message
        assert unchanged


def test_a_rank_of_an_older_epoch_aborts_the_step_and_is_named() -> None:
    def work(rank: int, group: Group) -> Any:
        me = start(QUIET, 2, rank, group, epoch=9 - rank)
        me.initialize()
        return aborted(me, QUIET, 1)

    for name, message, unchanged in on_ranks(2, work):
        assert (name, unchanged) == ("StepMismatch", True)
        assert "rank 0: step 1, epoch 9; rank 1: step 1, epoch 8" in message


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"step": replace(RECIPE.step, seed=8)}, "step"),
        ({"optimizer": replace(RECIPE.optimizer, beta1=0.8)}, "optimizer"),
    ],
)
def test_ranks_of_different_recipes_do_not_start(change: dict[str, Any], what: str) -> None:
    def work(rank: int, group: Group) -> str:
        try:
            start(replace(RECIPE, **change) if rank == 1 else RECIPE, 2, rank, group)
        except StepAborted as error:
            return str(error)
        return ""

    for message in on_ranks(2, work):
        assert message.startswith(f"ranks [1] have another {what} than rank 0")


def test_audits_that_find_nothing_change_nothing() -> None:
    assert train(RECIPE, 2, until=4).last.state_digest == train(QUIET, 2, until=4).last.state_digest


def test_a_rank_holds_moments_of_its_own_chunks_only() -> None:
    def work(rank: int, group: Group) -> int:
        return start(QUIET, 4, rank, group).snapshot_size()

    sizes = on_ranks(4, work)
    assert sum(sizes) == 3 * 4 * Layout(RECIPE.model).elements
    assert max(sizes) < sum(sizes) / 2


def test_a_skip_is_the_same_on_any_number_of_ranks() -> None:
    """A loss beyond float32: parameters so large that every leaf overflows on step 1 of a run that loads them."""
    huge = struct.pack("<f", 3e38)

    def work(rank: int, group: Group) -> Any:
        dp = 1 if group is None else dist.get_world_size(group)
        me = start(QUIET, dp, rank, group)
        chunks = me.plan.layout.chunks
        value = {"parameter": huge}
        me.load(lambda chunk, kind: memoryview(value.get(kind, bytes(4)) * chunks[chunk].length), Scalars())
        result = step_once(me, QUIET, 1)
        return result.outcome, me.scalars()

    seen = {answer for dp in (1, 2, 3) for answer in on_ranks(dp, work)}
    assert seen == {(Outcome.SKIPPED, Scalars(step=1, skipped=(1,)))}
