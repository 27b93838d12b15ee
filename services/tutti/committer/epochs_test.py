"""Opening epochs: who may, from where, under which shape, on which line."""

import pytest

from tutti.chassis.errors import AlreadyExists, InvalidField, Refused, StaleEpoch
from tutti.checkpoints import example_test as example
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CHECKPOINT_STATE_QUARANTINED, ReportShardRequest


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
        ({"rewind": True}, "cause"),
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


def test_a_rewind_starts_a_new_line(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10)
    with pytest.raises(Refused, match=r"committed are \[5, 10\]"):
        world.open_epoch(2, 2, rewind_to=7)
    start = world.open_epoch(2, 2, rewind_to=5)
    assert (start.checkpoint, start.line) == ("checkpoints/j/0/5", 1)
    assert (world.line(1).from_step, world.line(1).cause) == (5, "back to 5")
    assert world.open_epoch(2, 2, rewind_to=5) == start
    world.commit(10, epoch=2, line=1)
    assert world.checkpoint(10).state == world.checkpoint(10, line=1).state == CHECKPOINT_STATE_COMMITTED
    assert world.open_epoch(3, 2).checkpoint == "checkpoints/j/1/10"
    start = world.open_epoch(4, 2, rewind_to=5)
    assert (start.checkpoint, start.line) == ("checkpoints/j/0/5", 2)
    assert world.open_epoch(5, 2, rewind_to=0).checkpoint == ""
