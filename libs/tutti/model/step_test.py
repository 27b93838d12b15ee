"""One rank's step, without a process group. The proofs over several ranks are in tests/numerics."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tutti.model.batch import BatchError
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.results import AuditFailed, Finding, Outcome, Scalars
from tutti.model.spec import OptimizerSpec, SpecError, StepSpec
from tutti.model.step import RankStep
from tutti.model.transformer_test import MODEL

OPTIMIZER = OptimizerSpec(peak_rate=3e-3, steps=20, warmup_steps=2)
STEP = StepSpec(leaves=4, rows=2, seed=1)


@dataclass(frozen=True)
class Rows:
    tokens: npt.NDArray[Any]
    documents: npt.NDArray[Any]
    valid: npt.NDArray[Any]


def batch(leaf: int, *, valid: bool = True) -> Rows:
    tokens = np.random.default_rng(leaf).integers(0, 320, (2, 33)).astype(np.uint16)
    return Rows(tokens, np.zeros((2, 33), dtype=np.int32), np.full((2, 32), valid))


def rank(*, audit_every: int = 0, optimizer: OptimizerSpec = OPTIMIZER) -> RankStep:
    plan = Plan(Layout(MODEL), Shape(1), STEP.leaves)
    return RankStep(MODEL, optimizer, STEP, plan, rank=0, epoch=1, audit_every=audit_every)


@pytest.fixture
def me() -> RankStep:
    made = rank()
    made.initialize()
    return made


def leaves(*, valid: bool = True) -> dict[int, Rows]:
    return {leaf: batch(leaf, valid=valid) for leaf in range(4)}


def stored(me: RankStep) -> bytes:
    data = bytearray(me.snapshot_size())
    me.snapshot_into(memoryview(data))
    return bytes(data)


def test_the_loss_of_repeated_batches_falls_from_that_of_a_guess(me: RankStep) -> None:
    losses = [me.run(step, leaves()).loss for step in range(1, 16)]
    assert losses[0] == pytest.approx(math.log(320), abs=0.5)
    assert losses[-1] < losses[0] - 1


def test_a_result_says_what_happened(me: RankStep) -> None:
    result = me.run(1, leaves())
    assert (result.step, result.outcome, result.tokens, result.rate) == (1, Outcome.COMMITTED, 256, 1.5e-3)
    assert result.gradient_norm > 0
    assert len(result.busy) == 1
    assert min(vars(result.timings).values()) >= 0
    assert me.scalars() == Scalars(step=1)


def test_a_snapshot_loads_to_the_same_future(me: RankStep) -> None:
    me.run(1, leaves())
    data, other = stored(me), rank()
    table = {(entry.chunk, entry.kind.value): entry for entry in me.plan.snapshot_table(0)}

    def read(chunk: int, kind: str) -> memoryview:
        entry = table[chunk, kind]
        return memoryview(data)[entry.offset : entry.offset + entry.nbytes]

    other.load(read, me.scalars())
    assert other.run(2, leaves()).loss == me.run(2, leaves()).loss
    assert stored(other) == stored(me)


def test_a_step_with_no_valid_token_is_skipped_and_recorded_and_changes_nothing(me: RankStep) -> None:
    me.run(1, leaves())
    before = stored(me)
    assert me.run(2, leaves(valid=False)).outcome is Outcome.SKIPPED
    assert stored(me) == before
    assert me.scalars() == Scalars(step=2, skipped=(2,))
    assert me.run(3, leaves()).outcome is Outcome.COMMITTED
    assert me.scalars().updates == 2


def test_parameters_that_broke_are_gathered_anew_after_a_skip(me: RankStep) -> None:
    me.parameters[7] = math.nan
    assert me.run(1, leaves()).outcome is Outcome.SKIPPED
    assert me.run(2, leaves()).outcome is Outcome.COMMITTED


def test_clipping_bounds_what_a_step_sees() -> None:
    """AdamW hides the scale of a gradient, so look at the first moment, which does not."""
    moments = {}
    for clip in (1e-3, 1e30):
        me = rank(optimizer=replace(OPTIMIZER, clip_norm=clip))
        me.initialize()
        result = me.run(1, leaves())
        first = [entry for entry in me.plan.snapshot_table(0) if entry.kind.value == "first_moment"]
        data = stored(me)
        moment = np.concatenate([np.frombuffer(data[e.offset : e.offset + e.nbytes], dtype="<f4") for e in first])
        moments[clip] = float(np.linalg.norm(moment)) / (1 - OPTIMIZER.beta1)
    assert moments[1e30] == pytest.approx(result.gradient_norm, rel=1e-4)
    assert moments[1e-3] == pytest.approx(1e-3, rel=1e-2)


def test_an_audit_finds_a_flipped_bit_of_a_rank_alone() -> None:
    me = rank(audit_every=1)
    me.initialize()
    me.run(1, leaves())
    before = stored(me)
    chunk = me.plan.layout.chunks[2]
    me.parameters.view(torch.int32)[me.plan.layout.offsets[2] + 5] ^= 1
    with pytest.raises(AuditFailed, match=f"step 2: rank 0 .* chunk 2 \\({chunk.name}\\)") as caught:
        me.run(2, leaves())
    assert caught.value.finding == Finding(convicted=(0,))
    assert stored(me) == before


def test_steps_come_one_by_one(me: RankStep) -> None:
    with pytest.raises(ValueError, match="asked for step 2 in a state at step 0"):
        me.run(2, leaves())


def test_a_batch_that_does_not_fit_changes_nothing(me: RankStep) -> None:
    before, bad = stored(me), leaves()
    bad[2] = replace(bad[2], tokens=bad[2].tokens[:, 1:])
    with pytest.raises(BatchError, match="step 1, leaf 2"):
        me.run(1, bad)
    assert stored(me) == before
    assert me.run(1, leaves()).outcome is Outcome.COMMITTED


def test_a_checkpoint_of_another_layout_is_refused(me: RankStep) -> None:
    with pytest.raises(SpecError, match=r"parameter of chunk 0 .* has 3 elements"):
        me.load(lambda chunk, kind: np.zeros(3, dtype=np.float32), Scalars())


def test_a_snapshot_buffer_of_another_size_is_refused(me: RankStep) -> None:
    with pytest.raises(ValueError, match="snapshot buffer has 8 bytes"):
        me.snapshot_into(memoryview(bytearray(8)))


def test_a_plan_for_another_model_is_refused() -> None:
    plan = Plan(Layout(replace(MODEL, layers=3)), Shape(1), 4)
    with pytest.raises(SpecError, match="another model"):
        RankStep(MODEL, OPTIMIZER, STEP, plan, rank=0, epoch=1)


def test_threads_are_pinned_to_the_recipe(me: RankStep) -> None:
    assert torch.get_num_threads() == STEP.threads == me.kernel.threads


def test_evaluation_counts_valid_tokens_and_moves_nothing(me: RankStep) -> None:
    before, work = stored(me), me.work
    nats, tokens = me.evaluate(3, lambda leaf: batch(leaf, valid=leaf != 1))
    assert tokens == 128
    assert nats / tokens == pytest.approx(math.log(320), abs=0.5)
    assert stored(me) == before
    assert me.work == work + 3


def test_scalars_come_back_from_their_record() -> None:
    scalars = Scalars(step=5, skipped=(2, 4))
    assert Scalars.from_dict(scalars.to_dict()) == scalars
    with pytest.raises(SpecError):
        Scalars(step=1, skipped=(2,))
