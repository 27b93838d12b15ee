"""Agents that are asked to stop, and those that a scheduler has not heard of yet: what is placed, and what it costs."""

from pathlib import Path

import pytest

from tutti.chassis.errors import Refused
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    DrainNodeRequest,
    RegisterNodeRequest,
)
from tutti.scheduler.world_test import CALL, Agent, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def leave(world: World, agent: Agent) -> None:
    """The platform stops for a minute: the agent says so and lets go of everything, then the scheduler ends."""
    agent.heartbeat(leaving=True)
    agent.release()
    world.agents.remove(agent)
    world.clock.advance(60)
    world.start()
    world.settle()


def test_planned_stops_spend_no_attempt(world: World) -> None:
    agent = Agent(world)
    world.create()
    for turn in range(8):
        agent.run()
        assert world.job().state == JOB_STATE_RUNNING
        leave(world, agent)
        assert (world.job().state, world.job().fruitless) == (JOB_STATE_QUEUED, 0)
        agent = Agent(world, incarnation=f"again {turn}")
    assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, 9)
    assert world.job().history[:3] == [
        "epoch 1: 2 ranks on nodes/a from the start",
        "epoch 1: the agent of nodes/a was asked to stop",
        "epoch 2: 2 ranks on nodes/a from the start",
    ]


def test_a_loss_spends_an_attempt_as_before(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.lose(0)
    assert world.job().fruitless == 1


def test_nothing_is_placed_on_a_node_whose_agent_was_asked_to_stop(world: World) -> None:
    agent = Agent(world)
    agent.heartbeat(leaving=True)
    world.create()
    assert (agent.node.state, agent.assignments) == (NODE_STATE_LEFT, [])
    assert world.job().reason == "waiting for nodes with 2 free slots; stopped: nodes/a"
    Agent(world, incarnation="2")
    assert world.job().history == ["epoch 1: 2 ranks on nodes/a from the start"]


def test_an_agent_that_left_before_the_scheduler_started_may_be_starting_with_it(world: World) -> None:
    leave(world, Agent(world))
    world.create()
    assert world.job().reason == "waiting for nodes with 2 free slots; not heard of yet: nodes/a"
    Agent(world, incarnation="2")
    assert world.job().history == ["epoch 1: 2 ranks on nodes/a from the start"]


def test_what_comes_late_of_an_agent_that_left_brings_its_node_not_back(world: World) -> None:
    agent = Agent(world)
    agent.heartbeat(leaving=True)
    world.api.RegisterNode(RegisterNodeRequest(name="nodes/a", incarnation="1", slots=2), CALL)
    agent.heartbeat()
    agent.heartbeat(leaving=True)
    for drain in (True, False):
        world.api.DrainNode(DrainNodeRequest(name="nodes/a", drain=drain), CALL)
    assert agent.node.state == NODE_STATE_LEFT
    world.api.DrainNode(DrainNodeRequest(name="nodes/a", drain=True), CALL)
    assert Agent(world, incarnation="2").node.state == NODE_STATE_DRAINING


def test_the_others_of_a_gang_wait_for_the_agent_that_left_and_are_not_blamed(world: World) -> None:
    stays, goes = Agent(world, "a", slots=1), Agent(world, "b", slots=1)
    world.create()
    stays.run()
    goes.ready()
    goes.heartbeat(leaving=True)
    assert world.job().state == JOB_STATE_STOPPING
    stays.release()
    goes.release()
    assert world.job().reason == "waiting for 1 more free slot: it needs 2, one a rank; stopped: nodes/b"
    Agent(world, "b", slots=1, incarnation="2")
    assert (world.job().state, world.job().epoch, world.job().fruitless) == (JOB_STATE_STARTING, 2, 0)


def test_ranks_that_have_finished_are_not_called_back(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.finish()
    agent.heartbeat(leaving=True)
    assert (world.job().state, world.job().epoch) == (JOB_STATE_RUNNING, 1)


def test_a_node_that_left_for_long_counts_as_lost(world: World) -> None:
    agent = Agent(world)
    agent.heartbeat(leaving=True)
    agent.silent = True
    world.pass_time(20)
    assert agent.node.state == NODE_STATE_LOST


def test_a_job_is_not_given_to_an_agent_that_was_killed_with_the_platform(world: World) -> None:
    Agent(world)
    world.clock.advance(3)
    world.start()
    world.create()
    assert world.job().reason == "waiting for nodes with 2 free slots; not heard of yet: nodes/a"
    Agent(world, incarnation="2")
    assert world.job().history == ["epoch 1: 2 ranks on nodes/a from the start"]
    assert (world.job().state, world.job().fruitless) == (JOB_STATE_STARTING, 0)


def test_a_job_is_given_to_an_agent_that_survived_the_scheduler_once_it_is_heard(world: World) -> None:
    agent = Agent(world)
    world.clock.advance(3)
    world.start()
    world.create()
    assert (agent.node.state, world.job().state) == (NODE_STATE_READY, JOB_STATE_QUEUED)
    agent.heartbeat()
    assert world.job().state == JOB_STATE_STARTING


def test_ranks_that_died_with_the_platform_are_not_said_to_have_gone_on(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.clock.advance(3)
    world.start()
    world.settle()
    again = Agent(world, incarnation="2")
    world.pass_backoff()
    again.run()
    assert world.job().history == [
        "epoch 1: 2 ranks on nodes/a from the start",
        "epoch 1: nodes/a has a new agent, the ranks of the old one are gone",
        "epoch 2: 2 ranks on nodes/a from the start",
    ]


def test_a_second_agent_with_the_name_of_a_node_is_refused_while_the_first_is_alive(world: World) -> None:
    first = Agent(world, folder="first")
    world.create()
    first.run()
    with pytest.raises(
        Refused, match=r"nodes/a is served by another agent, at .* folder first: give this one \(folder s"
    ):
        Agent(world, incarnation="2", folder="second")
    assert (world.job().state, world.job().epoch) == (JOB_STATE_RUNNING, 1)
    assert Agent(world, incarnation="3", folder="first").node.incarnation == "3"


@pytest.mark.parametrize("how", ["left", "lost", "scheduler started"])
def test_an_agent_on_another_machine_takes_the_name_of_a_node_that_is_gone(world: World, how: str) -> None:
    first = Agent(world, folder="first")
    if how == "left":
        first.heartbeat(leaving=True)
    elif how == "lost":
        world.agents.remove(first)
        world.clock.advance(60)
    else:
        world.start()
    assert Agent(world, incarnation="2", folder="second").node.state == NODE_STATE_READY
    with pytest.raises(Refused, match="folder second"):
        Agent(world, incarnation="3", folder="first")
