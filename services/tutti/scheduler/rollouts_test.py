"""Rollout workers: ranks of a job behind those of its shape, placed with them as one gang."""

from dataclasses import replace
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    RANK_ROLE_ACTOR,
    RANK_ROLE_ROLLOUT,
    JobSpec,
    RankGroup,
    ReshapeJobRequest,
)
from tutti.model.programs.grpo import GrpoParameters, RewardFunction
from tutti.model.training import Training
from tutti.scheduler.decisions_test import lose
from tutti.scheduler.trainings import completed
from tutti.scheduler.world_test import CALL, Agent, World, request, training

ACTORS = RankGroup(role=RANK_ROLE_ACTOR, program="grpo")


def policy() -> Training:
    parameters = GrpoParameters(prompts=8, group=2, tokens=4, functions=(RewardFunction("ended"),))
    return replace(training(), program="grpo", program_parameters=parameters)


def workers(ranks: int, program: str = "grpo") -> RankGroup:
    return RankGroup(role=RANK_ROLE_ROLLOUT, program=program, ranks=ranks)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def create(world: World, *, ranks: int, rollouts: int, shrink: bool = False) -> None:
    asked, made = request("jobs/a", ranks=ranks, shrink=shrink), policy()
    asked.spec.training, asked.spec.training_digest = made.to_json(), made.digest()
    asked.spec.groups.extend([ACTORS, workers(rollouts)])
    world.api.CreateJob(asked, CALL)
    world.settle()


def test_workers_take_slots_beside_the_ranks_of_the_shape(world: World) -> None:
    agent = Agent(world, slots=3)
    create(world, ranks=2, rollouts=2)
    assert world.job().state == JOB_STATE_QUEUED
    assert world.job().reason.startswith("waiting for 1 more free slot: it needs 4, one a rank; ")
    assert "`tutti jobs reshape a --dp 1`" in world.job().reason
    other = Agent(world, "b", slots=1)
    world.settle()
    assert [(list(each.ranks), each.rollouts) for each in agent.assignments] == [([0, 1, 2], 2)]
    assert [(list(each.ranks), each.rollouts) for each in other.assignments] == [([3], 2)]
    assert world.job().shape.data_parallel == 2


def test_a_job_whose_workers_no_node_can_hold_keeps_no_other_waiting(world: World) -> None:
    Agent(world, slots=4)
    create(world, ranks=2, rollouts=3)
    world.create("jobs/b", ranks=1)
    assert world.job().state == JOB_STATE_QUEUED
    assert world.job("jobs/b").state == JOB_STATE_STARTING


def test_a_job_shrinks_to_the_slots_beside_its_workers(world: World) -> None:
    stays = Agent(world, "a", slots=2)
    goes = Agent(world, "b", slots=1)
    create(world, ranks=2, rollouts=1, shrink=True)
    stays.run()
    goes.ready()
    lose(world, goes)
    stays.release()
    assert (world.job().state, world.job().shape.data_parallel) == (JOB_STATE_STARTING, 1)
    assert (list(stays.assignments[-1].ranks), stays.assignments[-1].rollouts) == ([0, 1], 1)


def test_a_lost_worker_ends_the_epoch_and_is_named(world: World) -> None:
    agent = Agent(world, slots=4)
    create(world, ranks=1, rollouts=2)
    agent.run()
    assert world.job().state == JOB_STATE_RUNNING
    agent.lose(2)
    agent.release()
    world.settle()
    assert world.job().epoch == 2
    assert any("rank 2 on nodes/a lost (killed by signal 9)" in line for line in world.job().history)
    agent.run()
    world.hear(world.committer.commit(world.job(), 20))
    agent.finish()
    agent.release()
    world.settle()
    assert world.job().state == JOB_STATE_DONE


def test_a_reshape_keeps_the_workers(world: World) -> None:
    agent = Agent(world, slots=4)
    create(world, ranks=1, rollouts=2)
    agent.run()
    world.hear(world.committer.commit(world.job(), 5))
    world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=2), CALL)
    world.settle()
    world.hear(world.committer.commit(world.job(), 10))
    agent.release()
    world.settle()
    assert [(list(each.ranks), each.rollouts) for each in agent.assignments] == [([0, 1, 2, 3], 2)]


@pytest.mark.parametrize(
    ("made", "groups", "words"),
    [
        (policy(), [ACTORS, workers(1), workers(1)], "and at most one of rollouts"),
        (policy(), [ACTORS, workers(1, "ppo")], "and at most one of rollouts"),
        (policy(), [ACTORS, workers(0)], r"1 … 64 rollout workers"),
        (policy(), [ACTORS, workers(65)], r"1 … 64 rollout workers"),
        (policy(), [RankGroup(role=RANK_ROLE_ACTOR, program="grpo", ranks=2)], "data_parallel gives their number"),
        (training(), [RankGroup(role=RANK_ROLE_ACTOR, program="pretrain"), workers(1, "pretrain")], "one group of act"),
    ],
)
def test_groups_that_a_program_cannot_have_are_refused(made: Training, groups: list[RankGroup], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        completed(JobSpec(training=made.to_json(), groups=groups))


def test_a_program_that_rolls_out_may_have_workers() -> None:
    assert len(completed(JobSpec(training=policy().to_json(), groups=[ACTORS, workers(3)])).groups) == 2
    assert len(completed(JobSpec(training=policy().to_json())).groups) == 1
