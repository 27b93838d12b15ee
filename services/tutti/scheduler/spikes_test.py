"""Spikes of a training that goes back before them: what the next attempt trains on, and where it resumes."""

from dataclasses import replace
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_FAILED,
    JOB_STATE_RUNNING,
    JOB_STATE_STOPPING,
    RANK_EVENT_LOST,
    EpochOpened,
    ExtendJobRequest,
    Spike,
    SpikeEnded,
)
from tutti.model.spikes import REWIND, SKIP
from tutti.model.training import SkippedSteps, Training
from tutti.scheduler.continuations_test import ask, steady
from tutti.scheduler.world_test import CALL, Agent, World

STEPS = 100
SPIKE = Spike(first=31, last=34, loss=3.0, gradient_norm=9.5, skipped=3)


def created(world: World, spikes: str = REWIND) -> Agent:
    """A job on two ranks of one node, which have begun."""
    agent = Agent(world, slots=2)
    world.api.CreateJob(ask(replace(steady(STEPS), spikes=spikes)), CALL)
    world.settle()
    agent.run()
    return agent


def trained(world: World, name: str = "jobs/a") -> Training:
    return Training.from_json(world.job(name).spec.training)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_next_attempt_resumes_before_the_spike_and_leaves_out_its_data(world: World) -> None:
    agent, before = created(world), trained(world)
    for step in (25, 30, 35):
        world.hear(world.committer.commit(world.job(), step))
    for rank in (0, 1):
        agent.lose(rank, "a spike", spike=SPIKE)
    stopped = world.job()
    assert (stopped.state, stopped.fruitless, list(stopped.losses)) == (JOB_STATE_STOPPING, 0, [])
    assert not stopped.HasField("retry_at")
    agent.release()
    agent.run()
    opened = world.committer.opened[-1]
    assert (opened.epoch, opened.trusted_step) == (2, SPIKE.first - 1)
    assert Training.from_json(opened.training) == trained(world) == before.without(SPIKE.first, SPIKE.last)
    assert opened.training_digest == trained(world).digest() == world.job().spec.training_digest
    assert {each.training for each in agent.assignments} == {opened.training}
    assert (world.job().state, world.job().resume_checkpoint) == (JOB_STATE_RUNNING, "checkpoints/a/0/30")
    (ended,) = (SpikeEnded.FromString(each) for each in world.payloads("SpikeEnded"))
    assert ended == SpikeEnded(job="jobs/a", epoch=1, spike=SPIKE)
    facts = [EpochOpened.FromString(each) for each in world.payloads("EpochOpened")]
    assert "goes back before step 31" in facts[-1].cause
    assert facts[-1].cause in opened.cause


def test_each_spike_is_left_out_in_the_numbers_of_the_training_that_found_it(world: World) -> None:
    agent = created(world)
    for spike in (SPIKE, Spike(first=31, last=32), Spike(first=29, last=60)):
        agent.lose(0, "a spike", spike=spike)
        agent.release()
        agent.run()
    assert trained(world).skipped == (SkippedSteps(31, 34), SkippedSteps(31, 32), SkippedSteps(29, 60))
    assert (world.job().state, world.job().epoch) == (JOB_STATE_RUNNING, 4)


def test_an_agent_that_is_killed_after_its_report_changes_nothing_about_it(world: World) -> None:
    created(world).lose(0, "a spike", spike=SPIKE)
    again = Agent(world, slots=2, incarnation="2")
    world.start()
    world.pass_time(60)
    again.run()
    assert [each.first for each in trained(world).skipped] == [SPIKE.first]
    assert (world.job().state, world.job().epoch, world.job().fruitless) == (JOB_STATE_RUNNING, 2, 0)


def test_a_spike_that_is_reported_after_the_attempt_was_lost_counts(world: World) -> None:
    agent = created(world)
    agent.lose(1, "lost contact")
    agent.lose(0, "a spike", spike=SPIKE)
    agent.release()
    assert trained(world).skipped == (SkippedSteps(SPIKE.first, SPIKE.last),)
    assert world.committer.opened[-1].trusted_step == SPIKE.first - 1


def test_a_spike_from_before_the_checkpoint_that_a_job_starts_from_needs_the_earlier_job(world: World) -> None:
    created(world)
    world.hear(world.committer.commit(world.job(), 30))
    other = Agent(world, "b", slots=2)
    world.api.ExtendJob(ExtendJobRequest(job="jobs/a", name="jobs/b", steps=2 * STEPS), CALL)
    world.settle()
    other.report(RANK_EVENT_LOST, 0, job="jobs/b", cause="a spike", spike=Spike(first=29, last=33))
    job = world.job("jobs/b")
    assert (job.state, trained(world, "jobs/b").skipped) == (JOB_STATE_FAILED, ())
    assert "tutti jobs rewind a --to 28 --skip 29..33" in job.reason


@pytest.mark.parametrize(
    ("spikes", "spike"),
    [
        (SKIP, SPIKE),
        (REWIND, Spike(first=0, last=3)),
        (REWIND, Spike(first=9, last=8)),
        (REWIND, Spike(first=99, last=101)),
    ],
)
def test_a_spike_that_the_training_cannot_have_is_refused(world: World, spikes: str, spike: Spike) -> None:
    agent = created(world, spikes)
    with pytest.raises(InvalidField):
        agent.lose(0, "a spike", spike=spike)
    assert (world.job().state, world.payloads("SpikeEnded")) == (JOB_STATE_RUNNING, [])
