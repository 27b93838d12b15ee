"""What the doctor says of the scheduler, and how fast a job goes."""

from pathlib import Path

import pytest

from tutti.contracts.scheduler.v1 import ReportProgressRequest
from tutti.scheduler.world_test import CALL, Agent, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def findings(world: World) -> dict[str, tuple[bool, str]]:
    found = [check() for check in world.service.checks]
    return {each.check: (each.ok, each.message) for each in found}


def step(world: World, number: int) -> None:
    world.api.ReportProgress(ReportProgressRequest(job="jobs/a", epoch=1, node="nodes/a", step=number, loss=3.0), CALL)


def test_a_job_that_waits_without_an_agent_needs_attention_and_names_the_remedy(world: World) -> None:
    ok, said = findings(world)["nodes"]
    assert ok
    assert said.startswith("no agent is ready: start an agent: `tutti up`")
    world.create()
    ok, said = findings(world)["queue"]
    assert not ok
    assert said.startswith("1 job waits: jobs/a: waiting for")
    assert "`tutti up`" in said
    Agent(world, slots=1)
    assert findings(world)["queue"][0]
    assert findings(world)["nodes"] == (True, "1 of 1 ready with 1 slots")


def test_a_lost_node_and_a_job_that_stands_still_need_attention(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(steps=100)
    agent.spawn()
    agent.ready()
    assert findings(world)["progress"] == (True, "1 jobs run, each with progress")
    world.pass_time(601)
    ok, said = findings(world)["progress"]
    assert not ok
    assert said.startswith("jobs/a has made no progress for 10 minutes: `tutti logs jobs/a`")
    step(world, 1)
    assert findings(world)["progress"][0]
    world.pass_time(400)
    step(world, 1)  # its ranks compute, in a validation that takes long
    world.pass_time(400)
    assert findings(world)["progress"][0]
    agent.silent = True
    world.pass_time(30)
    ok, said = findings(world)["nodes"]
    assert not ok
    assert said.startswith("nodes/a is lost (")


def test_a_job_says_how_fast_it_goes_and_when_the_lines_of_its_history_were_written(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(steps=100)
    agent.spawn()
    agent.ready()
    step(world, 10)
    assert not world.job().HasField("steps_per_second")
    world.pass_time(4)
    step(world, 30)
    job = world.job()
    assert (job.steps_per_second, job.seconds_left) == (5.0, 14.0)
    assert job.tokens_per_second > 5.0
    assert len(job.history_times) == len(job.history) > 0
    assert job.history_times[0].ToNanoseconds() > 0


def test_skipped_steps_are_part_of_a_job_and_keep_its_last_finite_loss(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(steps=100)
    agent.spawn()
    agent.ready()
    step(world, 10)
    request = ReportProgressRequest(job="jobs/a", epoch=1, node="nodes/a", step=14, loss=float("nan"))
    request.skipped, request.skipped_in_a_row = 5, 4
    world.pass_time(60)
    world.api.ReportProgress(request, CALL)
    job = world.job()
    assert (job.step, job.loss, job.skipped, job.skipped_in_a_row) == (14, 3.0, 5, 4)
