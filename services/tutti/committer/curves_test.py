"""The curve of a checkpoint: every step of its ancestry once, whoever told it; a gap where nobody did."""

from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField, NotFound
from tutti.checkpoints import example_test as example
from tutti.checkpoints.curve import Curve
from tutti.checkpoints.keys import CURVES, REPORTS
from tutti.checkpoints.report import ShardReport
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    GetCurveRequest,
    GetCurveResponse,
    PruneCheckpointsRequest,
)


def curve(world: Rehearsal, step: int, *, line: int = 0, **rest: int) -> GetCurveResponse:
    found: GetCurveResponse = world.api.GetCurve(GetCurveRequest(name=f"checkpoints/j/{line}/{step}", **rest), CALL)
    return found


def steps(answer: GetCurveResponse) -> list[int]:
    return [point.step for point in answer.points]


def test_every_step_is_told_once_with_its_numbers(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    answer = curve(world, 15)
    told = example.curve(0, 15)
    assert steps(answer) == list(range(1, 16))
    for point, row in zip(answer.points, told.steps, strict=True):
        numbers = (point.loss, point.gradient_norm, point.rate)
        assert [each.hex() for each in numbers] == [
            float(row[name]).hex() for name in ("loss", "gradient_norm", "rate")
        ]
        assert (point.tokens, point.skipped) == (row["tokens"], bool(row["skipped"]))
    assert [point.step for point in answer.points if point.skipped] == [7, 14]
    assert [(each.step, each.bits_per_byte) for each in answer.validations] == [(5, 1.5), (10, 1.5), (15, 1.5)]
    assert (answer.steps, answer.skipped, answer.missing) == (15, 2, 0)
    assert steps(curve(world, 15, after_step=8)) == list(range(9, 16))
    thinned = steps(curve(world, 15, max_points=14))
    assert {1, 8, 9, 15} <= set(thinned)  # ends, and the lowest and highest of each half
    assert len(thinned) <= 14
    assert steps(curve(world, 15, max_points=6)) == [1, 15]  # which are the lowest and highest


def test_a_curve_does_not_know_how_often_and_on_how_many_ranks(tmp_path: Path) -> None:
    digests = []
    for dp in (1, 2, 3):
        world = Rehearsal(tmp_path / str(dp))
        world.open_epoch(1, dp)
        world.commit(5, dp=dp)
        world.snapshot(10, dp=dp, epoch=1)  # reported, and the epoch after it computes it again
        world.open_epoch(2, dp)
        world.commit(10, 15, dp=dp, epoch=2)
        digests.append([world.manifest(step).curve.digest for step in (5, 10, 15)])  # type: ignore[union-attr]
        assert steps(curve(world, 15)) == list(range(1, 16))
        world.close()
    assert digests[0] == digests[1] == digests[2]
    assert digests[0] == [example.curve(at - 5, at).digest for at in (5, 10, 15)]


def test_a_line_begins_with_the_curve_that_it_branched_from(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    doubted = world.request(2, 2)
    doubted.trusted_step, doubted.cause = 10, "an audit failed"
    world.api.OpenEpoch(doubted, CALL)
    world.commit(15, epoch=2, line=1)
    assert steps(curve(world, 15, line=1)) == list(range(1, 16))
    assert world.checkpoint(15, line=1).parent == "checkpoints/j/0/10"


def test_a_job_that_continues_another_begins_with_its_curve(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10)
    world.open_epoch(1, 2, job="k", base="checkpoints/j/0/5")
    world.commit(10, job="k")
    request = GetCurveRequest(name="checkpoints/k/0/10")
    assert steps(world.api.GetCurve(request, CALL)) == list(range(1, 11))


def test_a_step_whose_state_was_given_up_still_tells_its_curve(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    for rank in range(2):
        name, stored = world.store(10, dp=2, epoch=1, rank=rank, node=f"nodes/{'ab'[rank]}")
        if rank == 0:
            world.flip(name.shard_key)
        world.tell(name, stored, node=f"nodes/{'ab'[rank]}")
    world.settle()
    world.commit(15)
    with pytest.raises(NotFound):
        world.checkpoint(10)
    assert steps(curve(world, 15)) == list(range(1, 16))
    assert world.checkpoint(15).curve.steps == 10


def test_what_is_damaged_or_gone_is_a_gap_that_says_so(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    world.flip(world.checkpoint(5).curve.key)
    world.blobs.delete(world.checkpoint(10).curve.key)
    answer = curve(world, 15)
    assert steps(answer) == list(range(11, 16))
    assert (answer.steps, answer.missing) == (5, 10)
    assert [(gap.first_step, gap.last_step) for gap in answer.gaps] == [(1, 5), (6, 10)]
    assert "is damaged" in answer.gaps[0].reason
    assert "is not in the store" in answer.gaps[1].reason
    assert world.checkpoint(15).state == CHECKPOINT_STATE_COMMITTED


def test_ranks_that_tell_different_curves_cost_the_curve_and_not_the_checkpoint(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    for rank in range(2):
        name, stored = world.store(5, dp=2, epoch=1, rank=rank, node=f"nodes/{'ab'[rank]}")
        if rank == 1:
            data = world.blobs.get(name.report_key)
            report = ShardReport.decode(data)
            other = Curve.decode(report.curve).between(0, 4).encode()
            changed = ShardReport(**{**vars(report), "curve": other})
            world.blobs.delete(name.report_key)
            world.blobs.put_if_absent(name.report_key, changed.encode())
            world.tell(name, type(stored)(name.report_key, changed.digest, stored.nbytes), node="nodes/b")
        else:
            world.tell(name, stored)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED
    answer = curve(world, 5)
    assert (answer.missing, "no rank told" in answer.gaps[0].reason) == (5, True)


def test_a_curve_outlives_the_pruning_of_its_checkpoint_and_garbage_is_no_more_than_nobody_names(
    world: Rehearsal,
) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    world.api.PruneCheckpoints(PruneCheckpointsRequest(job="jobs/j", keep_last=1), CALL)
    stray = world.checkpoint(15).curve.key.replace(".15.1.", ".20.1.")
    world.blobs.put_if_absent(stray, world.blobs.get(world.checkpoint(15).curve.key))  # died before its decision
    world.open_epoch(2, 2)
    for _ in range(2):
        world.clock.advance(700)
        world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_PRUNED
    assert not [each.key for each in world.blobs.list(REPORTS) if ".5.1." in each.key]
    assert stray not in {each.key for each in world.blobs.list(CURVES)}
    assert steps(curve(world, 15)) == list(range(1, 16))


def test_what_cannot_be_asked_is_refused_by_field(world: Rehearsal) -> None:
    with pytest.raises(InvalidField, match="max_points"):
        curve(world, 5, max_points=3)
    with pytest.raises(NotFound):
        curve(world, 5)
