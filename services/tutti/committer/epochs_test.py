"""Opening epochs: who may, from where, under which shape, on which line."""

import pytest

from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Refused, StaleEpoch
from tutti.checkpoints import example_test as example
from tutti.committer.rehearsal_test import CALL, STEPS, Rehearsal
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_QUARANTINED,
    PruneCheckpointsRequest,
    ReportShardRequest,
)


def test_opening_an_epoch_finishes_what_the_last_one_left(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2)
    world.snapshot(5, dp=2, epoch=1)
    while world.read_back("nodes/a") or world.read_back("nodes/b"):
        pass
    start = world.open_epoch(2, 2, nodes=2)
    assert (start.checkpoint, start.step) == ("checkpoints/j/0/5", 5)
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED


def test_the_same_epoch_is_answered_alike_and_a_lower_one_never(world: Rehearsal) -> None:
    first = world.open_epoch(3, 2)
    world.commit(5, epoch=3)
    assert world.open_epoch(3, 2) == first
    with pytest.raises(AlreadyExists):
        world.open_epoch(3, 1)
    with pytest.raises(StaleEpoch):
        world.open_epoch(2, 2)
    assert world.open_epoch(4, 2).step == 5
    with pytest.raises(StaleEpoch):
        world.open_epoch(3, 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"job": ""}, "job"),
        ({"job": "jobs/No Such"}, "job"),
        ({"epoch": 0}, "epoch"),
        ({"training": "{}"}, "training"),
        ({"training_digest": "x"}, "training_digest"),
        ({"dataset_digest": "blake3:" + "0" * 64}, "dataset_digest"),
        ({"transition": "x"}, "transition"),
        ({"transition": "transitions/another/1"}, "transition"),
        ({"rewind": True}, "rewind"),
        ({"base": "checkpoints/other/0/5"}, "cause"),
        ({"trusted_step": 3}, "cause"),
    ],
)
def test_a_bad_request_names_its_field(world: Rehearsal, change: dict[str, object], field: str) -> None:
    request = world.request(1, 2)
    for name, value in change.items():
        setattr(request, name, value)
    with pytest.raises(InvalidField) as refused:
        world.api.OpenEpoch(request, CALL)
    assert refused.value.field == field
    with pytest.raises(InvalidField, match="shape"):
        world.open_epoch(1, 99)
    report = ReportShardRequest(job="j", step=1, epoch=1, node="n", report_key="a/b/c", report_digest="d")
    with pytest.raises(InvalidField, match="report_key"):
        world.api.ReportShard(report, CALL)


def test_another_shape_needs_a_transition(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    with pytest.raises(Refused, match="transition") as refused:
        world.open_epoch(2, 3)
    assert refused.value.reason == "TRANSITION_REQUIRED"
    for elsewhere in ("x", "jobs/j/1", "transitions/another/1"):
        with pytest.raises(InvalidField, match="transition"):
            world.open_epoch(2, 3, transition=elsewhere)
    assert world.line(0).epoch == 1
    assert world.open_epoch(2, 3, transition="transitions/j/1").step == 5
    assert (world.line(0).transition, world.line(0).shape.data_parallel) == ("transitions/j/1", 3)
    world.commit(10, dp=3, epoch=2)
    assert world.manifest(10).shape.dp == 3
    world.open_epoch(3, 3, transition="transitions/j/1")
    assert world.line(0).transition == ""  # its resume point has this shape


def test_another_training_is_refused(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.training = example.training(steps=7)
    with pytest.raises(Refused) as refused:
        world.open_epoch(2, 2)
    assert refused.value.reason == "ANOTHER_TRAINING"


def test_a_damaged_head_falls_back_on_a_new_line(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    world.flip(world.manifest(15).blobs[1].key)
    world.flip(world.checkpoint(10).manifest_key)
    start = world.open_epoch(2, 2)
    assert (start.checkpoint, start.step, start.line) == ("checkpoints/j/0/5", 5, 1)
    for step in (10, 15):
        found = world.checkpoint(step)
        assert found.state == CHECKPOINT_STATE_QUARANTINED
        assert found.reason
    assert len(list(world.blobs.list("committer/quarantine/"))) == 2
    world.commit(10, epoch=2, line=1)
    assert world.checkpoint(10, line=1).parent == "checkpoints/j/0/5"
    assert world.checkpoint(10, line=1).state_digest == world.checkpoint(10).state_digest
    line = world.line(1)
    assert (line.parent_line, line.from_step, line.head) == (0, 5, 10)
    assert world.line(0).sealed
    assert world.open_epoch(3, 2).checkpoint == "checkpoints/j/1/10"


def begun(world: Rehearsal, *, steps: int = 600) -> Rehearsal:
    """A job with checkpoints of steps 5 and 10; the next request is of a training that is extended."""
    world.open_epoch(1, 2)
    world.commit(5, 10)
    world.training = world.training.extended(steps)
    return world


BASE = "checkpoints/j/0/5"


def test_a_job_starts_from_a_checkpoint_of_another_one_which_stays(world: Rehearsal) -> None:
    begun(world)
    start = world.open_epoch(1, 2, job="k", base=BASE)
    assert (start.checkpoint, start.step, start.line) == (BASE, 5, 0)
    assert start.state_digest == world.checkpoint(5).state_digest
    assert world.open_epoch(1, 2, job="k", base=BASE) == start
    line = world.line(0, job="k")
    assert (line.from_step, line.head, line.cause) == (5, 5, f"from {BASE}")
    world.commit(10, 15, job="k")
    assert world.checkpoint(10, job="k").parent == BASE
    assert BASE in world.manifest(10, job="k").manifest(producer="test").parents
    assert world.open_epoch(2, 2, job="k", base=BASE).checkpoint == "checkpoints/k/0/15"
    world.flip(world.manifest(15, job="k").blobs[0].key)
    assert world.open_epoch(3, 2, job="k", base=BASE).checkpoint == "checkpoints/k/0/10"
    assert "damaged" in world.line(1, job="k").cause
    assert world.checkpoint(5).pinned
    request = PruneCheckpointsRequest(job="jobs/j", keep_last=1)
    assert list(world.api.PruneCheckpoints(request, CALL).checkpoints) == []


def test_without_a_sound_checkpoint_of_its_own_a_job_starts_from_its_base_again(world: Rehearsal) -> None:
    begun(world)
    world.open_epoch(1, 2, job="k", base=BASE)
    world.commit(10, job="k")
    doubted = world.request(2, 2, job="k", base=BASE)
    doubted.trusted_step = 0
    start = world.api.OpenEpoch(doubted, CALL)
    assert (start.checkpoint, start.step, start.line) == (BASE, 5, 1)
    assert world.checkpoint(10, job="k").suspect
    assert not world.checkpoint(5).suspect
    world.commit(10, epoch=2, line=1, job="k")
    assert not world.checkpoint(10, job="k").suspect


def test_a_base_that_cannot_be_trusted_is_refused(world: Rehearsal) -> None:
    begun(world)
    with pytest.raises(InvalidField, match="another job"):
        world.open_epoch(2, 2, base=BASE)
    with pytest.raises(NotFound):
        world.open_epoch(1, 2, job="k", base="checkpoints/none/0/5")
    longer, world.training = world.training, example.training(steps=600, seed=1)
    with pytest.raises(InvalidField, match="the same training"):
        world.open_epoch(1, 2, job="k", base=BASE)
    world.training = longer
    with pytest.raises(Refused, match="transition"):
        world.open_epoch(1, 1, job="k", base=BASE)
    world.flip(world.manifest(5).blobs[1].key)
    with pytest.raises(Refused, match="damaged") as damaged:
        world.open_epoch(2, 2, job="k", base=BASE)
    assert damaged.value.reason == "BASE_UNUSABLE"
    assert world.checkpoint(5).state == CHECKPOINT_STATE_QUARANTINED
    world.training = example.training(steps=STEPS)
    doubted = world.request(2, 2)
    doubted.trusted_step, doubted.cause = 5, "an audit failed"
    world.api.OpenEpoch(doubted, CALL)
    world.training = longer
    with pytest.raises(Refused, match="suspect: an audit failed"):
        world.open_epoch(1, 2, job="k", base="checkpoints/j/0/10")
