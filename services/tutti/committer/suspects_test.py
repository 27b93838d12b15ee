"""Suspects: an epoch with a trusted step resumes before it, and names what it leaves behind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField, Refused, StaleEpoch
from tutti.chassis.events.event import Event
from tutti.checkpoints import example_test as example
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.writer import describe, store
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.committer.suspects import descending
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    DivergenceDetected,
    OpenEpochResponse,
    PruneCheckpointsRequest,
)
from tutti.contracts.scheduler.v1 import JOB_STATE_FAILED, Job
from tutti.model.plan import Shape

WHY = "the audit of step 20 convicted rank 1"


def rewound(world: Rehearsal, epoch: int, trusted: int, *, cause: str = WHY) -> OpenEpochResponse:
    request = world.request(epoch, 2)
    request.trusted_step, request.cause = trusted, cause
    found: OpenEpochResponse = world.api.OpenEpoch(request, CALL)
    return found


def test_an_epoch_with_a_trusted_step_resumes_before_it_on_a_new_line(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    answer = rewound(world, 2, 10)
    assert (answer.step, answer.line) == (10, 1)
    assert [bool(world.checkpoint(step).suspect) for step in (5, 10, 15)] == [False, False, True]
    assert world.checkpoint(15).suspect == WHY
    assert world.checkpoint(15).state == CHECKPOINT_STATE_COMMITTED
    assert (world.line(0).sealed, world.line(1).cause, world.line(1).from_step) == (True, WHY, 10)
    assert rewound(world, 2, 10) == answer


def test_without_a_checkpoint_before_the_trusted_step_the_job_begins_anew(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    answer = rewound(world, 2, 4)
    assert (answer.checkpoint, answer.step, answer.line) == ("", 0, 1)
    assert world.checkpoint(5).suspect


def test_a_job_that_goes_back_trains_without_the_data_that_it_leaves_out(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    first, world.training = world.training, world.training.without(12, 14)
    with pytest.raises(Refused, match="training") as refused:
        rewound(world, 2, 12)
    assert refused.value.reason == "ANOTHER_TRAINING"
    answer = rewound(world, 2, 11)
    assert (answer.step, answer.line) == (10, 1)
    assert (world.checkpoint(15).suspect, world.line(1).cause) == (WHY, WHY)
    world.commit(15, epoch=2, line=1)
    assert world.manifest(15, line=1).training == world.training
    assert world.open_epoch(3, 2).step == 15
    world.training = first
    with pytest.raises(Refused, match="training"):
        world.open_epoch(4, 2)


def test_a_new_line_begins_even_where_nothing_is_in_doubt(world: Rehearsal) -> None:
    """Snapshots of the epoch before may still arrive: they must not be compared with those of the replay."""
    world.open_epoch(1, 2)
    world.commit(5, 10)
    zombies = [world.store(15, dp=2, epoch=1, rank=rank, seed=7) for rank in range(2)]
    assert rewound(world, 2, 10).line == 1
    world.commit(15, epoch=2, line=1)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    assert not world.events(DivergenceDetected)


def test_a_suspect_is_never_resumed_from_again(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    rewound(world, 2, 10)
    answer = world.open_epoch(3, 2)
    assert (answer.step, answer.line) == (10, 1)


def test_a_replay_that_commits_the_same_state_clears_the_suspicion(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    world.snapshot(20, dp=2, epoch=1, seed=7)
    world.settle()
    rewound(world, 2, 10)
    world.commit(15, 20, epoch=2, line=1)
    assert [bool(world.checkpoint(step).suspect) for step in (15, 20)] == [False, True]
    assert not world.checkpoint(20, line=1).suspect


def test_a_state_that_a_replay_confirmed_is_doubted_again_with_the_replay(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    rewound(world, 2, 10)
    world.commit(15, epoch=2, line=1)
    rewound(world, 3, 10)
    assert world.checkpoint(15).suspect
    assert world.checkpoint(15, line=1).suspect


def test_a_trusted_step_needs_a_cause(world: Rehearsal) -> None:
    with pytest.raises(InvalidField, match="cause"):
        rewound(world, 1, 10, cause="")


def test_a_divergence_makes_the_disputed_step_and_later_ones_suspect(world: Rehearsal) -> None:
    diverged(world, kernel=None)
    assert [bool(world.checkpoint(step).suspect) for step in (5, 10, 15)] == [False, True, True]
    (fact,) = world.events(DivergenceDetected)
    assert not fact.other_kernel


def test_a_divergence_between_two_kernel_signatures_is_reported_and_nothing_more(world: Rehearsal) -> None:
    diverged(world, kernel={"machine": "another"})
    (fact,) = world.events(DivergenceDetected)
    assert fact.other_kernel
    assert "another kernel signature" in world.checkpoint(10).reason
    assert not any(world.checkpoint(step).suspect for step in (5, 10, 15))


def diverged(world: Rehearsal, *, kernel: dict[str, Any] | None) -> None:
    """Epoch 1 stores another state of step 10, which arrives after epoch 2 has committed it."""
    world.open_epoch(1, 2)
    world.commit(5)
    zombies = []
    for rank in range(2):
        name = ShardName("j", 0, 10, 1, rank).stored_by("nodes/a")
        buffer = example.buffer(example.training(steps=400, seed=7), Shape(2), rank, 10)
        snapshot = example.snapshot(world.training, Shape(2), name, node="nodes/a")
        report = describe(buffer, replace(snapshot, kernel=kernel) if kernel else snapshot)
        zombies.append((name, store(world.blobs, report, buffer)))
    world.open_epoch(2, 2)
    world.commit(10, 15, epoch=2)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    world.settle()


def test_retention_keeps_the_newest_checkpoint_that_the_last_audit_covers(tmp_path: Path) -> None:
    world = Rehearsal(tmp_path, training=replace(example.training(steps=400), audit_every=10))
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    request = PruneCheckpointsRequest(job="jobs/j", keep_last=1)
    assert list(world.api.PruneCheckpoints(request, CALL).checkpoints) == ["checkpoints/j/0/5"]
    assert rewound(world, 2, 10).step == 10
    world.close()


def test_the_lines_that_hold_a_step_are_the_line_and_its_later_branches() -> None:
    lines = [(0, 0, 0), (1, 0, 10), (2, 1, 15), (3, 0, 5)]
    assert descending(lines, 0, 8) == {0, 1, 2}
    assert descending(lines, 0, 10) == {0}
    assert descending(lines, 1, 12) == {1, 2}


def test_what_is_decided_after_its_job_ended_in_doubt_is_suspect(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15)
    job = Job(name="jobs/j", state=JOB_STATE_FAILED, line=0, trusted_step=10, reason=WHY)
    handler = next(each.handler for each in world.service.consumes if each.message is Job)
    event = Event("1", "", job.name, 1, world.clock.now(), "", job)
    for _ in range(2):
        world.host.units.run(lambda unit: handler(unit, [event]))
    world.commit(20)
    assert [world.checkpoint(step).suspect for step in (5, 10, 15, 20)] == ["", "", WHY, WHY]


def test_a_job_that_ends_without_doubt_makes_nothing_suspect(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    handler = next(each.handler for each in world.service.consumes if each.message is Job)
    for job in (Job(name="jobs/j", state=JOB_STATE_FAILED), Job(name="jobs/j", trusted_step=0)):
        event = Event("1", "", job.name, 1, world.clock.now(), "", job)
        world.host.units.run(lambda unit, event=event: handler(unit, [event]))  # type: ignore[misc]
    assert not world.checkpoint(5).suspect
