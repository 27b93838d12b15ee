"""Versions of shape, and the changes between them: recorded by people and by policy, applied at an epoch."""

from pathlib import Path

import pytest

from tutti.chassis.errors import AlreadyExists, InvalidField, Refused
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    NODE_STATE_DRAINING,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    TRANSITION_STATE_APPLIED,
    TRANSITION_STATE_RECORDED,
    TRANSITION_STATE_WITHDRAWN,
    DrainNodeRequest,
    ReshapeJobRequest,
    Topology,
    Transition,
)
from tutti.scheduler.continuations import MAX_CAUSE
from tutti.scheduler.topology import shape_of
from tutti.scheduler.world_test import CALL, Agent, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def reshape(world: World, ranks: int, **more: str) -> Transition:
    made = world.api.ReshapeJob(ReshapeJobRequest(job="jobs/a", data_parallel=ranks, **more), CALL)  # type: ignore[arg-type]
    world.settle()
    found: Transition = made
    return found


def transitions(world: World) -> list[Transition]:
    return list(world.api.ListTransitions(ListRequest(), CALL).transitions)


def topologies(world: World) -> list[Topology]:
    listed = world.api.ListTopologies(ListRequest(filter="job=jobs/a"), CALL).topologies
    return [world.api.GetTopology(GetRequest(name=topology.name), CALL) for topology in listed]


def test_a_running_job_is_reshaped_after_its_next_checkpoint(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    agent.run()
    world.hear(world.committer.commit(world.job(), 5))
    made = reshape(world, 2, cause="make room")
    assert (made.name, made.actor, made.state) == ("transitions/a/1", "service", TRANSITION_STATE_RECORDED)
    assert world.job().state == JOB_STATE_RUNNING
    world.hear(world.committer.commit(world.job(), 10))
    assert world.job().state == JOB_STATE_STOPPING
    agent.release()
    job = world.job()
    assert (job.state, job.epoch, job.shape.data_parallel, job.topology_version) == (JOB_STATE_STARTING, 2, 2, 2)
    assert world.committer.opened[-1].transition == "transitions/a/1"
    (applied,) = transitions(world)
    assert (applied.state, applied.epoch, applied.at_step) == (TRANSITION_STATE_APPLIED, 2, 10)
    assert (applied.from_shape, applied.to_shape) == (shape_of(4), shape_of(2))
    assert job.fruitless == 0


def test_a_cause_that_a_person_gives_is_short(world: World) -> None:
    Agent(world, slots=2)
    world.create(ranks=1)
    reshape(world, 2, cause="x" * MAX_CAUSE)
    with pytest.raises(InvalidField) as caught:
        reshape(world, 3, cause="x" * (MAX_CAUSE + 1))
    assert caught.value.field == "cause"


def test_a_chain_of_shapes_names_its_transition_every_time(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    for number, ranks in enumerate((2, 3, 1, 4), 1):
        agent.run()
        reshape(world, ranks)
        world.hear(world.committer.commit(world.job(), number))
        agent.release()
        assert world.job().shape.data_parallel == ranks
        assert world.committer.opened[-1].transition == f"transitions/a/{number}"


def test_a_transition_is_named_again_until_a_checkpoint_has_the_new_shape(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    agent.run()
    reshape(world, 2)
    world.hear(world.committer.commit(world.job(), 5))
    agent.release()
    agent.lose(0)
    agent.release()
    assert world.job().state == JOB_STATE_STARTING
    assert world.committer.opened[-1].transition == "transitions/a/1"


def test_a_job_that_has_not_stepped_yet_is_reshaped_at_once(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    reshape(world, 2)
    agent.release()
    assert (world.job().epoch, world.job().shape.data_parallel) == (2, 2)


def test_a_newer_transition_withdraws_the_one_that_waits(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    agent.run()
    reshape(world, 2)
    reshape(world, 3)
    states = [each.state for each in transitions(world)]
    assert states == [TRANSITION_STATE_WITHDRAWN, TRANSITION_STATE_RECORDED]
    world.api.CancelJob(CancelRequest(name="jobs/a"), CALL)
    assert [each.state for each in transitions(world)] == [TRANSITION_STATE_WITHDRAWN] * 2


def test_a_repeated_request_records_one_transition(world: World) -> None:
    Agent(world, slots=4)
    world.create(ranks=4)
    first = reshape(world, 2, request_id="r1")
    assert reshape(world, 2, request_id="r1").name == first.name
    assert len(transitions(world)) == 1
    with pytest.raises(AlreadyExists):
        reshape(world, 3, request_id="r1")


def test_a_shape_that_cannot_be_is_refused(world: World) -> None:
    Agent(world, slots=4)
    world.create(ranks=4)
    with pytest.raises(InvalidField, match="1 … 8"):
        reshape(world, 9)
    with pytest.raises(Refused, match="4 ranks already"):
        reshape(world, 4)
    world.api.CancelJob(CancelRequest(name="jobs/a"), CALL)
    with pytest.raises(Refused, match="has ended"):
        reshape(world, 2)
    assert transitions(world) == []


def test_a_lost_node_shrinks_a_job_that_allows_it(world: World) -> None:
    stays, goes = Agent(world, "a", slots=3), Agent(world, "b", slots=3)
    world.create(ranks=6, shrink=True)
    stays.run()
    goes.ready()
    assert world.job().state == JOB_STATE_RUNNING
    goes.silent = True
    world.pass_time(20)
    assert goes.node.state == NODE_STATE_LOST
    stays.release()
    job = world.job()
    assert (job.state, job.epoch, job.shape.data_parallel) == (JOB_STATE_STARTING, 2, 3)
    (made,) = transitions(world)
    assert (made.actor, made.cause) == ("policy", "nodes/b lost, 3 of 6 slots left")


def test_a_lost_node_leaves_a_job_waiting_that_does_not_allow_it_until_it_comes_back(world: World) -> None:
    stays, goes = Agent(world, "a", slots=1), Agent(world, "b", slots=1)
    world.create()
    stays.run()
    goes.ready()
    goes.silent = True
    world.pass_time(20)
    stays.release()
    job = world.job()
    assert job.state == JOB_STATE_QUEUED
    assert job.reason == "waiting for 1 more free slot: it needs 2, one a rank; lost: nodes/b"
    goes.silent = False
    world.pass_time(1)
    assert goes.node.state == NODE_STATE_READY
    assert world.job().state == JOB_STATE_QUEUED
    goes.release()
    assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, 2)


def test_a_node_is_not_lost_for_the_time_that_the_scheduler_was_away(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.silent = True
    world.clock.advance(3600)
    world.start()
    world.pass_time(14)
    assert agent.node.state == NODE_STATE_READY
    world.clock.advance(3600)
    world.pass_time(14)
    assert agent.node.state == NODE_STATE_READY
    world.pass_time(2)
    assert agent.node.state == NODE_STATE_LOST
    assert world.job().state == JOB_STATE_QUEUED


def test_a_draining_node_keeps_its_ranks_and_takes_no_new_ones(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.api.DrainNode(DrainNodeRequest(name="nodes/a", drain=True), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_RUNNING
    agent.lose(0)
    agent.release()
    assert world.job().reason.endswith("draining: nodes/a")
    Agent(world, incarnation="2")
    assert agent.node.state == NODE_STATE_DRAINING
    world.api.DrainNode(DrainNodeRequest(name="nodes/a", drain=False), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_STARTING


def test_a_node_that_never_releases_is_left_behind_with_its_slots(world: World) -> None:
    stuck = Agent(world, "a")
    world.create()
    stuck.run()
    spare = Agent(world, "b")
    stuck.lose(0)
    world.pass_time(61)
    assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, 2)
    assert world.nodes() == {"nodes/b"}
    assert [each.stop for each in stuck.assignments] == [True]
    assert len(spare.assignments) == 1


def test_every_version_of_a_shape_and_what_led_to_it_can_be_read_afterwards(world: World) -> None:
    agent = Agent(world, slots=4)
    world.create(ranks=4)
    agent.run()
    world.hear(world.committer.commit(world.job(), 5))
    reshape(world, 2, cause="make room")
    world.hear(world.committer.commit(world.job(), 10))
    agent.release()
    first, second = topologies(world)
    assert (first.name, first.version, first.shape, first.epoch) == ("topologies/a/1", 1, shape_of(4), 1)
    assert (first.transition, first.cause) == ("", "the shape that the job was created with")
    assert [(placed.rank, placed.node) for placed in first.placement] == [(rank, "nodes/a") for rank in range(4)]
    assert (second.name, second.version, second.shape, second.epoch) == ("topologies/a/2", 2, shape_of(2), 2)
    assert (second.transition, second.cause) == ("transitions/a/1", "service: make room")
    assert world.api.GetTopology(GetRequest(name=second.name), CALL) == second


def test_a_topology_that_is_placed_anew_keeps_its_version(world: World) -> None:
    stuck = Agent(world, "a")
    world.create()
    stuck.run()
    Agent(world, "b")
    stuck.lose(0)
    (before,) = topologies(world)
    world.pass_time(61)
    (after,) = topologies(world)
    assert world.job().epoch == 2
    assert (after.version, after.epoch, after.placement_version) == (1, 1, before.placement_version + 1)
    assert ({placed.node for placed in before.placement}, before.nodes) == ({"nodes/a"}, "nodes/a")
    assert ({placed.node for placed in after.placement}, after.nodes) == ({"nodes/b"}, "nodes/b")
