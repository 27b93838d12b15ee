"""Decisions: what a job waits for, until when, and when it is changed."""

from pathlib import Path

import pytest

from tutti.chassis.events.event import MAX_PAYLOAD_BYTES
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    RANK_EVENT_SPAWNED,
    TRANSITION_STATE_RECORDED,
    TRANSITION_STATE_WITHDRAWN,
    DrainNodeRequest,
    Job,
    ReshapeJobRequest,
    Transition,
)
from tutti.scheduler import gangs, jobs, topology
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.topology import shape_of
from tutti.scheduler.world_test import CALL, Agent, World

MOMENT = 1e-5


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def transitions(world: World) -> list[Transition]:
    return list(world.api.ListTransitions(ListRequest(), CALL).transitions)


def wait(world: World, seconds: float) -> None:
    """Let time pass to a moment before `seconds` are over; agents are heard only then."""
    world.clock.advance(seconds - MOMENT)
    for agent in world.agents:
        agent.heartbeat()


def test_a_rendezvous_has_exactly_its_time_from_the_last_spawn_and_names_who_is_late(world: World) -> None:
    agent = Agent(world)
    world.create()
    world.pass_time(5)
    agent.spawn()
    agent.ready(0)
    wait(world, 60)
    assert world.job().state == JOB_STATE_STARTING
    world.pass_time(MOMENT)
    assert world.job().state == JOB_STATE_STOPPING
    late = world.job().history[-1]
    assert ("rank 1 on nodes/a" in late, "rank 0" in late, "spawned" in late) == (True, False, False)


def test_ranks_that_do_not_spawn_are_named(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.report(RANK_EVENT_SPAWNED, 0)
    wait(world, SchedulerSettings().staging_seconds)
    assert world.job().state == JOB_STATE_STARTING
    world.pass_time(MOMENT)
    assert world.job().state == JOB_STATE_STOPPING
    late = world.job().history[-1]
    assert ("rank 1 on nodes/a" in late, "rank 0" in late, "spawned" in late) == (True, False, True)


def test_a_node_has_exactly_the_time_of_a_release(world: World) -> None:
    agent = Agent(world)
    Agent(world, "b")
    world.create()
    agent.run()
    agent.lose(0)
    wait(world, 60)
    job = world.job()
    lost = "epoch 1: rank 0 on nodes/a lost (killed by signal 9) after step 7"
    assert (job.state, job.reason) == (JOB_STATE_STOPPING, f"{lost}; waits for nodes/a to release it")
    world.pass_time(MOMENT)
    assert (world.job().state, world.nodes()) == (JOB_STATE_STARTING, {"nodes/b"})


def test_the_last_checkpoint_has_exactly_its_time_to_be_committed(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.finish()
    wait(world, 600)
    job = world.job()
    assert (job.state, job.reason) == (JOB_STATE_RUNNING, "waits for the checkpoint of step 20 to be committed")
    world.clock.advance(MOMENT)
    world.wake("jobs/a")
    world.settle()
    assert world.job().history[-1] == "epoch 1: the checkpoint of step 20 was not committed in 600 s"
    assert world.job().state == JOB_STATE_STOPPING


def test_a_job_names_the_nodes_that_do_not_help_and_why(world: World) -> None:
    for name in ("lost", "left", "drains"):
        agent = Agent(world, name, slots=1)
        agent.silent = name != "drains"
        if name == "left":
            world.pass_time(20)
            agent.silent = False
            agent.heartbeat(leaving=True)
        elif name == "drains":
            world.api.DrainNode(DrainNodeRequest(name="nodes/drains", drain=True), CALL)
    Agent(world, "ready", slots=1)
    world.create()
    assert world.job().reason == (
        "waiting for 1 more free slot: it needs 2, one a rank; lost: nodes/lost; stopped: nodes/left; "
        "draining: nodes/drains"
    )


def test_a_node_that_was_told_of_as_many_jobs_as_it_can_be_is_named(world: World) -> None:
    Agent(world)

    def tell(unit: Unit) -> None:
        node = world.tables.nodes.lock(unit, "nodes/a")
        node.reason = "x" * (MAX_PAYLOAD_BYTES - gangs.ASSIGNMENT_BYTES)
        world.tables.nodes.put(unit, node)

    world.host.units.run(tell)
    world.create()
    assert world.job().reason.endswith("; with as many jobs as a node can be told of: nodes/a")


def lose(world: World, agent: Agent) -> None:
    agent.silent = True
    world.pass_time(20)


def test_a_job_shrinks_to_one_rank_but_not_to_none(world: World) -> None:
    stays, goes = Agent(world, "a", slots=1), Agent(world, "b", slots=1)
    world.create(shrink=True)
    stays.run()
    goes.ready()
    lose(world, goes)
    stays.release()
    assert (world.job().state, world.job().shape.data_parallel) == (JOB_STATE_STARTING, 1)
    lose(world, stays)
    world.pass_time(60)
    assert (world.job().state, len(transitions(world))) == (JOB_STATE_QUEUED, 1)
    assert world.job().reason == "waiting for a node with 1 free slot; lost: nodes/a, nodes/b"


def test_a_job_does_not_shrink_while_no_node_is_lost(world: World) -> None:
    Agent(world, slots=1)
    world.create(shrink=True)
    assert (world.job().state, transitions(world)) == (JOB_STATE_QUEUED, [])


def test_a_job_does_not_shrink_where_what_is_left_can_hold_it_once_others_end(world: World) -> None:
    Agent(world, "a", slots=1)
    Agent(world, "b", slots=1)
    goes = Agent(world, "c", slots=1)
    lose(world, goes)
    world.create("jobs/other", ranks=1)
    world.create(shrink=True)
    assert (world.job().state, transitions(world)) == (JOB_STATE_QUEUED, [])


def test_a_job_that_waits_is_reshaped_from_the_shape_that_it_asked_for(world: World) -> None:
    Agent(world, slots=1)
    world.create(ranks=2)
    made = world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=1), CALL)
    world.settle()
    assert (made.from_shape, made.to_shape) == (shape_of(2), shape_of(1))
    assert (world.job().state, world.job().shape.data_parallel) == (JOB_STATE_STARTING, 1)


def test_a_running_job_is_reshaped_after_its_next_checkpoint_and_not_before(world: World) -> None:
    agent = Agent(world)
    world.create(ranks=2)
    agent.run()
    world.hear(world.committer.commit(world.job(), 5))
    world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=1), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_RUNNING
    world.hear(world.committer.commit(world.job(), 10))
    assert world.job().state == JOB_STATE_STOPPING


def test_a_job_that_starts_is_reshaped_at_once(world: World) -> None:
    Agent(world)
    world.create(ranks=2)
    world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=1), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_STOPPING


def test_a_transition_that_still_waits_is_withdrawn_for_the_next_one(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    agent.run()
    for ranks in (2, 1):
        world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=ranks), CALL)
    assert {each.name: each.state for each in transitions(world)} == {
        topology.transition_name("jobs/a", 1): TRANSITION_STATE_WITHDRAWN,
        topology.transition_name("jobs/a", 2): TRANSITION_STATE_RECORDED,
    }


def test_a_job_whose_shape_is_the_wanted_one_by_now_is_not_ended_for_it(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    agent.run()
    for ranks in (2, 4):
        world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=ranks), CALL)
    world.hear(world.committer.commit(world.job(), 5))
    assert (world.job().state, world.job().epoch) == (JOB_STATE_RUNNING, 1)


def test_nothing_is_decided_of_a_job_that_is_not_there(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.wake("jobs/unheard-of")
    world.settle()
    assert caplog.records == []


def convict(world: World, name: str, times: int) -> None:
    def put(unit: Unit) -> None:
        node = world.tables.nodes.lock(unit, name)
        node.convictions = times
        world.tables.nodes.put(unit, node)

    world.host.units.run(put)


def test_a_job_waits_for_nodes_that_are_busy_even_if_others_are_excluded(world: World) -> None:
    Agent(world, "a")
    Agent(world, "b")
    convict(world, "nodes/b", gangs.EXCLUDING)
    world.create("jobs/other")
    world.create()
    assert world.job().state == JOB_STATE_QUEUED
    assert "nodes/b" in world.job().reason


def test_a_job_that_only_an_excluded_node_could_hold_fails(world: World) -> None:
    Agent(world, "a", slots=1)
    Agent(world, "b", slots=1)
    convict(world, "nodes/b", gangs.EXCLUDING)
    world.create(ranks=2)
    assert (world.job().state, "tutti nodes clear b" in world.job().reason) == (JOB_STATE_FAILED, True)


def test_a_job_that_shrinks_because_of_an_excluded_node_says_so(world: World) -> None:
    agent = Agent(world, "a", slots=1)
    Agent(world, "b", slots=1)
    convict(world, "nodes/b", gangs.EXCLUDING)
    world.create(shrink=True)
    (made,) = transitions(world)
    assert (made.to_shape, "nodes/b" in made.cause, "excluded" in made.cause) == (shape_of(1), True, True)
    assert {placed for placed in world.nodes()} == {agent.name}


def test_the_committer_is_told_why_states_are_in_doubt(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.fail_audit(10, convicted=[1])
    agent.release()
    assert world.committer.opened[-1].cause in world.job().history


def fail_attempt(world: World, agent: Agent) -> None:
    """The ranks of an agent meet; one dies, and the others are released at once."""
    agent.run()
    agent.lose(0)
    agent.release(backoff=False)


def test_failed_attempts_back_off_and_the_job_says_for_how_long(world: World) -> None:
    agent = Agent(world)
    world.create(attempts=9)
    waits = []
    for fruitless in range(1, 9):
        fail_attempt(world, agent)
        job, begun = world.job(), world.clock.monotonic()
        seconds = jobs.BACKOFF.longest(fruitless)
        assert (job.state, job.epoch, job.fruitless) == (JOB_STATE_QUEUED, fruitless, fruitless)
        assert f"{seconds:g} s" in job.reason
        assert "without a new checkpoint" in job.reason
        assert "killed by signal 9" in job.reason
        wait(world, seconds)
        world.settle()
        assert world.job().state == JOB_STATE_QUEUED
        world.pass_time(MOMENT)
        assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, fruitless + 1)
        waits.append(round(world.clock.monotonic() - begun))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_job_that_backs_off_looks_again_when_its_time_is_over(world: World) -> None:
    agent = Agent(world)
    world.create(attempts=9)
    fail_attempt(world, agent)
    world.clock.advance(jobs.BACKOFF.longest(1))
    world.settle()  # nobody was heard meanwhile
    assert world.job().state == JOB_STATE_STARTING


def test_a_checkpoint_that_an_audit_covers_resets_the_backoff(world: World) -> None:
    agent = Agent(world)
    world.create(attempts=9)
    for _ in range(3):
        fail_attempt(world, agent)
        world.pass_backoff()
    agent.run()
    agent.progress(10)  # it passed the audit of step 10
    world.hear(world.committer.commit(world.job(), 5))
    fail_attempt(world, agent)
    world.pass_time(1.0)
    assert (world.job().state, world.job().resume_checkpoint) == (JOB_STATE_STARTING, "checkpoints/a/0/5")


def test_a_backoff_outlives_the_scheduler(world: World) -> None:
    agent = Agent(world)
    world.create(attempts=9)
    for _ in range(4):
        fail_attempt(world, agent)
        world.pass_backoff()
    fail_attempt(world, agent)
    world.start()
    agent.heartbeat()
    world.pass_time(15.0)
    assert world.job().state == JOB_STATE_QUEUED
    world.pass_time(2.0)
    assert world.job().state == JOB_STATE_STARTING


def test_an_attempt_that_was_ended_on_purpose_is_followed_at_once(world: World) -> None:
    agent, other = Agent(world), Agent(world, "b")
    world.create()
    agent.run()
    agent.heartbeat(leaving=True)
    agent.release(backoff=False)
    assert (world.job().state, world.nodes()) == (JOB_STATE_STARTING, {"nodes/b"})
    other.run()
    world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=1), CALL)
    world.hear(world.committer.commit(world.job(), 5))
    other.release(backoff=False)
    assert (world.job().state, world.job().shape.data_parallel) == (JOB_STATE_STARTING, 1)


def test_a_node_with_two_losses_of_a_job_is_used_only_where_nothing_else_fits(world: World) -> None:
    agent = Agent(world)
    other = Agent(world, "b")
    world.create(attempts=9)
    used = []
    for _ in range(3):
        used.append(world.nodes())
        fail_attempt(world, agent if used[-1] == {"nodes/a"} else other)
        world.pass_backoff()
    assert used == [{"nodes/a"}, {"nodes/a"}, {"nodes/b"}]
    fail_attempt(world, other)
    other.heartbeat(leaving=True)
    world.pass_backoff()
    assert world.nodes() == {"nodes/a"}
    assert {each.node: each.losses for each in world.job().losses} == {"nodes/a": 2, "nodes/b": 2}


def test_a_node_is_not_blamed_for_losses_that_followed_from_those_of_other_nodes(world: World) -> None:
    victim, guilty = Agent(world, "a", slots=1), Agent(world, "b", slots=1)
    world.create()
    for _ in range(2):
        victim.run()
        guilty.run()
        victim.lose(0, cause="lost contact with the other ranks", consequence=True)
        guilty.lose(1)
        victim.release()
        guilty.release()
    assert [(each.node, each.losses) for each in world.job().losses] == [("nodes/b", 2)]


def test_a_gang_that_no_registered_nodes_could_hold_says_so_at_once_and_waits_for_a_limited_time(world: World) -> None:
    agent, limit = Agent(world, slots=2), SchedulerSettings().capacity_seconds
    world.create(ranks=5)
    assert all(words in world.job().reason for words in ("together have 2", "tutti up --agents"))
    world.pass_time(2)
    world.clock.advance(limit - 10)
    agent.heartbeat()
    world.start()  # it was away: agents may come that it has not heard of
    world.pass_time(10)
    assert world.job().state == JOB_STATE_QUEUED
    Agent(world, "b", slots=3)
    assert world.job().state == JOB_STATE_STARTING


def test_a_look_at_a_job_that_waits_writes_nothing_while_nothing_changes(world: World) -> None:
    def look() -> list[Job]:
        for name in names:
            world.wake(name)
        world.settle()
        return [world.job(name) for name in names]

    names = ("jobs/a", "jobs/c")
    Agent(world, slots=2)
    world.create(ranks=5)
    world.create("jobs/b", ranks=2)
    world.create("jobs/c", ranks=2)
    seen, told = look(), world.payloads("Job")
    assert {job.state for job in seen} == {JOB_STATE_QUEUED}
    assert [look(), look()] == [seen, seen]
    assert world.payloads("Job") == told


def test_a_gang_for_which_no_more_nodes_register_fails_with_what_is_missing(world: World) -> None:
    Agent(world, slots=2)
    world.create(ranks=5)
    world.create("jobs/b", ranks=2)
    assert world.job("jobs/b").state == JOB_STATE_STARTING
    world.pass_time(SchedulerSettings().capacity_seconds - 60)
    assert world.job().state == JOB_STATE_QUEUED
    world.pass_time(120)
    assert world.job().state == JOB_STATE_FAILED
    assert all(words in world.job().reason for words in ("5 free slots", "together have 2", "none came within"))
