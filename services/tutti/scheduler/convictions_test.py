"""Convictions: where a job resumes after a failed audit, who is convicted, and where ranks run after that."""

from pathlib import Path

import pytest

from tutti.contracts.committer.v1 import DivergenceDetected
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    ClearNodeRequest,
    RankLost,
)
from tutti.scheduler.world_test import CALL, Agent, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def gang(world: World, *, ranks: int = 4, spare: int = 0, **more: int) -> tuple[Agent, ...]:
    """A job over nodes a and b of half its ranks each; then a node c comes with so many slots."""
    agents = [Agent(world, name, slots=ranks // 2) for name in "ab"]
    world.create(ranks=ranks, steps=40)
    if spare:
        agents.append(Agent(world, "c", slots=spare))
    run(*agents[:2])
    return tuple(agents)


def run(*agents: Agent) -> None:
    for agent in agents:
        if agent.assignments:
            agent.run()


def release(*agents: Agent) -> None:
    for agent in agents:
        agent.release()


def lost(world: World) -> list[tuple[int, str]]:
    facts = [RankLost.FromString(payload) for payload in world.payloads("RankLost")]
    return [(fact.rank, fact.node) for fact in facts]


def test_after_a_failed_audit_the_job_resumes_from_its_last_passed_audit(world: World) -> None:
    a, b = gang(world)
    a.progress(12)
    for step in (5, 10, 15):
        world.hear(world.committer.commit(world.job(), step))
    a.fail_audit(20, convicted=[2])
    assert (world.job().state, world.job().trusted_step) == (JOB_STATE_STOPPING, 10)
    b.fail_audit(20, convicted=[2])
    release(a, b)
    opened = world.committer.opened[-1]
    assert (opened.trusted_step, bool(opened.cause)) == (10, True)
    job = world.job()
    assert (job.state, job.step, job.line) == (JOB_STATE_STARTING, 10, 1)
    assert not job.HasField("trusted_step")
    assert lost(world) == [(2, "nodes/b")]
    assert b.node.convictions == 1
    assert a.node.convictions == 0


def test_an_attempt_without_doubt_opens_its_epoch_without_a_trusted_step(world: World) -> None:
    a, b = gang(world)
    world.hear(world.committer.commit(world.job(), 5))
    a.lose(0)
    release(a, b)
    assert not world.committer.opened[-1].HasField("trusted_step")


def test_an_audit_that_is_reported_after_a_lost_rank_still_counts(world: World) -> None:
    a, b = gang(world)
    a.lose(0, "lost contact")
    b.fail_audit(20, convicted=[2])
    assert world.job().trusted_step == 10
    assert b.node.convictions == 1
    assert world.job().fruitless == 1


def test_a_node_that_was_convicted_once_is_used_only_if_the_gang_does_not_fit_without_it(world: World) -> None:
    a, b, c = gang(world, spare=2)
    a.fail_audit(20, convicted=[2])
    release(a, b, c)
    assert world.nodes() == {"nodes/a", "nodes/c"}
    c.heartbeat(leaving=True)
    release(a, b, c)
    assert world.nodes() == {"nodes/a", "nodes/b"}


def test_a_node_is_excluded_after_its_second_conviction_until_it_is_cleared(world: World) -> None:
    a, b = gang(world)
    a.fail_audit(20, convicted=[2])
    release(a, b)
    run(a, b)
    d = Agent(world, "d", slots=1)
    a.fail_audit(20, convicted=[3])
    c = Agent(world, "c", slots=1)
    release(a, b)
    assert world.job().state == JOB_STATE_STARTING
    assert world.nodes() == {"nodes/a", "nodes/c", "nodes/d"}
    c.heartbeat(leaving=True)
    release(a, c, d)
    world.start()
    for agent in world.agents:
        agent.heartbeat()
    world.settle()
    assert world.job().state == JOB_STATE_QUEUED
    assert "until `tutti nodes clear`: nodes/b" in world.job().reason
    world.api.ClearNode(ClearNodeRequest(name="nodes/b"), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_STARTING
    assert b.node.convictions == 0
    assert "nodes/b" in world.nodes()


def test_a_job_that_only_excluded_nodes_could_hold_fails_and_names_the_command(world: World) -> None:
    a, b = gang(world)
    for _ in range(2):
        run(a, b)
        b.fail_audit(20, convicted=[3])
        release(a, b)
    assert world.job().state == JOB_STATE_FAILED
    assert "tutti nodes clear b" in world.job().reason


def test_an_excluded_node_counts_as_lost_for_shrink(world: World) -> None:
    agents = [Agent(world, name, slots=2) for name in "ab"]
    world.create(ranks=4, shrink=True, steps=40)
    for _ in range(2):
        run(*agents)
        agents[1].fail_audit(20, convicted=[3])
        release(*agents)
    job = world.job()
    assert (job.state, job.shape.data_parallel) == (JOB_STATE_STARTING, 2)
    assert world.nodes() == {"nodes/a"}


def test_two_ranks_that_disagree_are_suspects_and_neither_is_convicted(world: World) -> None:
    a, b = gang(world, ranks=2)
    for _ in range(5):
        run(a, b)
        a.fail_audit(20, disagreements=[(0, 1), (1, 0)])
        release(a, b)
    assert world.job().state == JOB_STATE_FAILED
    assert all(node in world.job().reason for node in ("nodes/a", "nodes/b"))
    assert [a.node.convictions, b.node.convictions] == [0, 0]
    assert lost(world) == [(0, "nodes/a"), (1, "nodes/b")] * 5


def test_a_spare_node_replaces_a_suspect_and_who_disagrees_with_it_too_is_convicted(world: World) -> None:
    a, b, c = gang(world, ranks=2, spare=1)
    a.fail_audit(20, disagreements=[(0, 1), (1, 0)])
    release(a, b, c)
    assert world.nodes() == {"nodes/a", "nodes/c"}
    run(a, c)
    c.fail_audit(20, disagreements=[(0, 1), (1, 0)])
    release(a, b, c)
    assert [agent.node.convictions for agent in (a, b, c)] == [1, 0, 0]
    assert world.nodes() == {"nodes/b", "nodes/c"}


def test_a_spare_node_of_another_kernel_signature_replaces_nobody(world: World) -> None:
    a, b = gang(world, ranks=2)
    c = Agent(world, "c", slots=1, kernel="another")
    a.fail_audit(20, disagreements=[(0, 1), (1, 0)])
    release(a, b, c)
    assert world.nodes() == {"nodes/a", "nodes/b"}


def test_who_disagreed_with_a_convict_is_not_convicted_for_it_later(world: World) -> None:
    a, b, c = gang(world, ranks=2, spare=1)
    for others in ((a, b), (a, c)):
        run(*others)
        others[0].fail_audit(20, disagreements=[(0, 1)])
        release(a, b, c)
    assert a.node.convictions == 1
    run(b, c)
    b.fail_audit(20, disagreements=[(0, 1)])
    assert [agent.node.convictions for agent in (a, b, c)] == [1, 0, 0]


def test_disagreements_that_no_single_place_explains_count_against_nobody(world: World) -> None:
    agents = [Agent(world, name, slots=1) for name in "abcd"]
    world.create(ranks=4, steps=40)
    for pairs in ([(0, 1), (2, 3)], [(0, 2), (1, 3)]):
        run(*agents)
        agents[0].fail_audit(20, disagreements=pairs)
        release(*agents)
    assert [agent.node.convictions for agent in agents] == [0, 0, 0, 0]


def test_after_a_divergence_the_job_resumes_from_before_the_disputed_step(world: World) -> None:
    a, b = gang(world)
    a.progress(21)
    for step in (5, 10, 15, 20):
        world.hear(world.committer.commit(world.job(), step))
    world.hear_diverged(DivergenceDetected(checkpoint="checkpoints/a/0/15", decided_epoch=1, epoch=0))
    assert world.job().trusted_step == 14
    release(a, b)
    assert (world.job().state, world.job().step) == (JOB_STATE_STARTING, 10)


@pytest.mark.parametrize(
    "fact",
    [
        DivergenceDetected(checkpoint="checkpoints/a/0/15", other_kernel=True),
        DivergenceDetected(checkpoint="checkpoints/a/3/15"),
        DivergenceDetected(checkpoint="checkpoints/unknown/0/15"),
    ],
)
def test_a_divergence_that_does_not_concern_the_states_of_a_job_changes_nothing(
    world: World, fact: DivergenceDetected
) -> None:
    gang(world)
    before = world.job()
    world.hear_diverged(fact)
    assert (world.job(), world.job().state) == (before, JOB_STATE_RUNNING)
