"""Jobs that start from a state of an earlier one: from which checkpoint, with what training, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Refused
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_PRUNED, Checkpoint
from tutti.contracts.common.v1 import ListRequest, SkippedSteps
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    ContinuedJob,
    CreateJobRequest,
    ExtendJobRequest,
    Job,
    RewindJobRequest,
)
from tutti.model.programs.grpo import GrpoParameters
from tutti.model.training import Training
from tutti.scheduler.world_test import CALL, Agent, World, request, training

SPOILED: dict[str, Callable[[Checkpoint], None]] = {
    "pruned": lambda found: setattr(found, "state", CHECKPOINT_STATE_PRUNED),
    "suspect": lambda found: setattr(found, "suspect", "an audit failed"),
}


def steady(steps: int = 40, *, schedule: str = "wsd") -> Training:
    """Checkpoints every five steps; with wsd the rate decays after step 33."""
    made = training(steps)
    optimizer = replace(made.optimizer, schedule=schedule, warmup_steps=2, decay_fraction=0.2, decay_end=steps + 1)
    return replace(made, optimizer=optimizer)


def ask(made: Training) -> CreateJobRequest:
    asked = request("jobs/a", ranks=2, steps=made.steps)
    asked.spec.training, asked.spec.training_digest = made.to_json(), made.digest()
    return asked


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def trained(world: World, made: Training, *, until: int = 0) -> Job:
    """A job that has made its checkpoints up to a step, or all of them, on two ranks."""
    agent = Agent(world, slots=2)
    world.api.CreateJob(ask(made), CALL)
    world.settle()
    agent.run()
    parent = ""
    for step in range(5, (until or made.steps) + 1, 5):
        agent.progress(step)
        found = world.committer.commit(world.job(), step)
        found.parent, parent = parent, found.name
        world.hear(found)
    if not until:
        agent.finish()
        agent.release()
        assert world.job().state == JOB_STATE_DONE
    return world.job()


def extend(world: World, steps: int, **more: Any) -> ContinuedJob:
    asked: dict[str, Any] = {"job": "jobs/a", "name": "jobs/b", "steps": steps}
    found: ContinuedJob = world.api.ExtendJob(ExtendJobRequest(**asked | more), CALL)
    return found


def rewind(world: World, step: int, *skip: int, **more: Any) -> ContinuedJob:
    asked: dict[str, Any] = {"job": "jobs/a", "name": "jobs/b", "to_step": step, "cause": "a spike"}
    request = RewindJobRequest(**asked | more)
    if skip:
        request.skip.CopyFrom(SkippedSteps(first=skip[0], last=skip[1]))
    found: ContinuedJob = world.api.RewindJob(request, CALL)
    return found


def test_an_extended_job_starts_from_the_newest_checkpoint_before_the_decay(world: World) -> None:
    before = trained(world, steady())
    made = extend(world, 60)
    assert made == ContinuedJob(job="jobs/b", line=0, from_step=30, checkpoint="checkpoints/a/0/30")
    job = world.job("jobs/b")
    longer = Training.from_json(job.spec.training)
    assert longer == steady(60)
    assert (job.spec.steps, job.spec.training_digest, job.spec.data_parallel) == (60, longer.digest(), 2)
    assert (job.continues.job, job.continues.step) == ("jobs/a", 30)
    assert "40 to 60" in job.continues.cause
    world.settle()
    opened = world.committer.opened[-1]
    assert (opened.job, opened.base, opened.cause) == ("jobs/b", made.checkpoint, job.continues.cause)
    assert world.job() == before


def test_a_job_that_still_trains_is_extended_from_what_a_passed_audit_covers(world: World) -> None:
    trained(world, replace(steady(), audit_every=10), until=15)
    assert extend(world, 60).checkpoint == "checkpoints/a/0/10"


def test_a_rewound_job_leaves_out_the_data_of_the_steps_that_are_named(world: World) -> None:
    trained(world, steady())
    made = rewind(world, 18, 17, 22)
    assert (made.from_step, made.checkpoint) == (15, "checkpoints/a/0/15")
    job = world.job("jobs/b")
    assert Training.from_json(job.spec.training) == steady().without(17, 22)
    assert (job.continues.cause, job.continues.skipped) == ("a spike", SkippedSteps(first=17, last=22))
    assert rewind(world, 40, name="jobs/c").from_step == 35
    assert not world.job("jobs/c").continues.HasField("skipped")


@pytest.mark.parametrize("how", SPOILED)
def test_a_rewind_goes_past_checkpoints_that_are_not_sound(world: World, how: str) -> None:
    trained(world, steady())
    SPOILED[how](world.committer.checkpoints["checkpoints/a/0/20"])
    assert rewind(world, 24).from_step == 15


def test_a_job_that_continues_another_is_continued_from_the_checkpoints_of_both(world: World) -> None:
    trained(world, steady())
    extend(world, 60)
    made = extend(world, 80, job="jobs/b", name="jobs/c")
    assert made.checkpoint == "checkpoints/a/0/30"
    assert world.job("jobs/c").continues.job == "jobs/b"
    again = rewind(world, 12, 13, 13, job="jobs/b", name="jobs/d")
    assert (again.checkpoint, world.job("jobs/d").spec.steps) == ("checkpoints/a/0/10", 60)


def test_a_repeated_request_has_its_effect_once_and_a_dry_run_none(world: World) -> None:
    trained(world, steady())
    assert extend(world, 60, validate_only=True).from_step == 30
    assert [job.name for job in world.api.ListJobs(ListRequest(), CALL).jobs] == ["jobs/a"]
    made = extend(world, 60, request_id="1")
    SPOILED["pruned"](world.committer.checkpoints[made.checkpoint])
    assert extend(world, 60, request_id="1") == made
    with pytest.raises(AlreadyExists):
        extend(world, 80, request_id="2")


@pytest.mark.parametrize(("how", "says"), [("pruned", "it has those of steps 35, 40"), ("suspect", "rewind a --to 29")])
def test_without_a_sound_checkpoint_before_the_decay_nothing_is_extended(world: World, how: str, says: str) -> None:
    trained(world, steady())
    for step in range(5, 31, 5):
        SPOILED[how](world.committer.checkpoints[f"checkpoints/a/0/{step}"])
    with pytest.raises(Refused, match=says) as refused:
        extend(world, 60)
    assert refused.value.reason == "NO_SUCH_STEP"


def test_a_job_without_a_checkpoint_is_neither_extended_nor_rewound(world: World) -> None:
    world.api.CreateJob(ask(steady()), CALL)
    for call in (extend, rewind):
        with pytest.raises(Refused, match="it has none"):
            call(world, 60)


def test_a_cosine_is_not_extended_but_rewound(world: World) -> None:
    trained(world, steady(schedule="cosine"))
    with pytest.raises(Refused, match="schedule=wsd") as refused:
        extend(world, 60)
    assert refused.value.reason == "NOT_EXTENDABLE"
    assert rewind(world, 10, 11, 12).from_step == 10


def test_a_policy_is_neither_extended_nor_rewound_because_it_makes_its_own_data(world: World) -> None:
    policy = replace(steady(), program="grpo", program_parameters=GrpoParameters(prompts=2, group=2, tokens=4))
    asked = ask(policy)
    world.api.CreateJob(asked, CALL)
    for call in (extend, rewind):
        with pytest.raises(Refused, match="grpo"):
            call(world, 60)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda world: extend(world, 40), "steps"),
        (lambda world: extend(world, 2**60), "steps"),
        (lambda world: extend(world, 60, name="b"), "name"),
        (lambda world: extend(world, 60, cause="x" * 301), "cause"),
        (lambda world: rewind(world, 10, cause=""), "cause"),
        (lambda world: rewind(world, 0), "to_step"),
        (lambda world: rewind(world, 10, 10, 12), "skip.first"),
        (lambda world: rewind(world, 10, 41, 42), "skip.first"),
        (lambda world: rewind(world, 10, 12, 11), "skip"),
    ],
)
def test_what_cannot_work_is_refused_by_field(world: World, call: Callable[[World], ContinuedJob], field: str) -> None:
    trained(world, steady())
    with pytest.raises(InvalidField) as refused:
        call(world)
    assert refused.value.field == field
    with pytest.raises(NotFound):
        extend(world, 60, job="jobs/none")
