"""Stalls: every node is asked, and the decision names the guilty ranks with their nodes, or lets all go on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField, PermissionDenied, StaleEpoch
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import DEFAULT_TENANT, Method, Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.references import References
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    CallGroup,
    GroupCall,
    RankLost,
    RankStanding,
    ReportStallRequest,
)
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.world_test import CALL, Agent, World

WORLD = [CallGroup(name="0", ranks=[0, 1, 2])]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def gang(world: World) -> list[Agent]:
    """A rank on each of three nodes."""
    agents = [Agent(world, name, slots=1) for name in "abc"]
    world.create(ranks=3)
    for agent in agents:
        agent.run()
    return agents


def standing(rank: int, entered: int = 12, *, waits: bool = True, idle: float = 30.0) -> RankStanding:
    call = GroupCall(group="0", entered=entered, name="gloo:all_to_all", pending=entered if waits else None)
    return RankStanding(rank=rank, crossed=7, step=8, phase="stepping", idle_seconds=idle, calls=[call])


def tell(
    world: World,
    agent: Agent,
    *standings: RankStanding,
    inquiry: int = 0,
    seconds: float = 0.0,
    groups: Sequence[CallGroup] = WORLD,
    epoch: int = 0,
) -> int:
    request = ReportStallRequest(
        job="jobs/a",
        epoch=epoch or world.job().epoch,
        node=agent.name,
        inquiry=inquiry,
        seconds=seconds,
        ranks=standings,
        groups=groups,
    )
    number: int = world.api.ReportStall(request, CALL).inquiry
    world.settle()
    return number


def inquiries(agent: Agent) -> list[tuple[int, int]]:
    return [(each.stall_inquiry, each.stall_settled) for each in agent.assignments]


def losses(world: World) -> list[tuple[int, str]]:
    lost = [RankLost.FromString(payload) for payload in world.payloads("RankLost")]
    return [(each.rank, each.node) for each in lost]


def test_the_first_report_asks_every_node_and_the_last_answer_decides(world: World) -> None:
    a, b, c = gang(world)
    assert tell(world, a, standing(0), seconds=30.0) == 1
    assert [inquiries(agent) for agent in (a, b, c)] == [[(1, 0)]] * 3
    assert tell(world, c, standing(2), seconds=30.0) == 1  # it noticed the stall itself
    assert (world.job().state, losses(world)) == (JOB_STATE_RUNNING, [])
    tell(world, b, standing(1, 11, waits=False), inquiry=1)
    assert (world.job().state, losses(world)) == (JOB_STATE_STOPPING, [(1, "nodes/b")])
    assert "rank 1 on nodes/b" in world.job().reason
    assert [each.node for each in world.job().losses] == ["nodes/b"]
    assert all(agent.assignments[0].stop for agent in (a, b, c))


def test_a_cycle_over_three_nodes_is_one_loss_that_names_all_members(world: World) -> None:
    agents = gang(world)
    before = len(world.job().history)
    for rank, agent in enumerate(agents):
        group = GroupCall(group="0", entered=0, name="nccl:recv", pending=1, peers=[(rank + 1) % 3])
        told = RankStanding(rank=rank, step=8, phase="stepping", idle_seconds=30.0, calls=[group])
        tell(world, agent, told, inquiry=int(rank > 0), seconds=30.0)
    assert losses(world) == [(0, "nodes/a"), (1, "nodes/b"), (2, "nodes/c")]
    lines = world.job().history[before:]
    assert len(lines) == 1
    assert all(f"rank {rank} on nodes/{name}" in lines[0] for rank, name in enumerate("abc"))


def test_a_node_that_does_not_answer_in_time_is_named_and_the_others_decide(world: World) -> None:
    a, b, _ = gang(world)
    tell(world, a, standing(0), seconds=30.0)
    world.pass_time(5.0)
    tell(world, b, standing(1, 11, waits=False), inquiry=1)
    world.pass_time(9.0)
    assert world.job().state == JOB_STATE_RUNNING
    world.pass_time(2.0)
    assert (world.job().state, losses(world)) == (JOB_STATE_STOPPING, [(1, "nodes/b")])
    assert "nodes/c did not answer" in world.job().reason


def test_an_inquiry_outlives_the_scheduler(world: World) -> None:
    a, *_ = gang(world)
    tell(world, a, standing(0), seconds=30.0)
    world.start()
    world.pass_time(20.0)
    assert world.job().state == JOB_STATE_STOPPING
    assert {node for _, node in losses(world)} == {"nodes/b", "nodes/c"}


def test_a_gang_whose_rank_computes_goes_on_and_can_be_asked_again(world: World) -> None:
    a, b, c = gang(world)
    tell(world, a, standing(0), seconds=30.0)
    tell(world, c, standing(2), inquiry=1)
    tell(world, b, standing(1, 11, waits=False, idle=0.5), inquiry=1)
    assert (world.job().state, losses(world)) == (JOB_STATE_RUNNING, [])
    assert [inquiries(agent) for agent in (a, b, c)] == [[(1, 1)]] * 3
    assert tell(world, b, standing(1), inquiry=1) == 0  # late
    assert tell(world, b, RankStanding(rank=1, silent=True, crossed=7), seconds=10.0) == 2
    tell(world, a, standing(0), inquiry=2)
    tell(world, c, standing(2, 11, waits=False, idle=0.5), inquiry=2)
    assert (world.job().state, losses(world)) == (JOB_STATE_STOPPING, [(1, "nodes/b")])


def test_where_every_rank_has_entered_no_node_is_blamed(world: World) -> None:
    for rank, agent in enumerate(gang(world)):
        tell(world, agent, standing(rank), inquiry=int(rank > 0), seconds=30.0)
    job = world.job()
    assert (job.state, job.fruitless, losses(world), list(job.losses)) == (JOB_STATE_STOPPING, 1, [], [])


def test_only_a_node_that_holds_ranks_of_the_epoch_may_report_and_only_its_own_ranks(world: World) -> None:
    a, b, _ = gang(world)
    stranger = Agent(world, "x", slots=1)
    own = Principal("nodes/b", frozenset({Role.AGENT}), DEFAULT_TENANT, Method.TOKEN)
    agent_of_b = Call(role=Role.AGENT, request_id="", peer="test", deadline_seconds=10, user=own)
    with pytest.raises(PermissionDenied):
        References(world.host, world.service).require(ReportStallRequest(job="jobs/a", node=a.name), agent_of_b)
    with pytest.raises(InvalidField, match="nodes/x"):
        tell(world, stranger, standing(0), seconds=30.0)
    with pytest.raises(InvalidField, match="rank 1 on nodes/a"):
        tell(world, a, standing(0), standing(1), seconds=30.0)
    with pytest.raises(InvalidField, match="bytes"):
        tell(world, b, standing(1), seconds=30.0, groups=[CallGroup(name="x" * 1_000_001)])
    assert [inquiries(agent) for agent in (a, b)] == [[(0, 0)]] * 2


def test_a_job_that_is_woken_in_the_last_second_of_an_inquiry_waits_for_its_end(world: World) -> None:
    a, _, _ = gang(world)
    tell(world, a, standing(0), seconds=30.0)
    world.clock.advance(SchedulerSettings().stall_seconds - 0.5)
    world.wake("jobs/a")
    world.settle()
    assert world.job().state == JOB_STATE_RUNNING


def test_a_report_of_an_earlier_epoch_is_refused_and_the_next_epoch_begins_without_an_inquiry(world: World) -> None:
    a, b, c = gang(world)
    tell(world, a, standing(0), seconds=30.0)
    a.lose(0)
    for agent in (a, b, c):
        agent.release()
    assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, 2)
    with pytest.raises(StaleEpoch):
        tell(world, b, standing(1), inquiry=1, epoch=1)
    world.pass_time(20.0)
    assert [inquiries(agent) for agent in (a, b, c)] == [[(0, 0)]] * 3
    assert world.job().state == JOB_STATE_STARTING
