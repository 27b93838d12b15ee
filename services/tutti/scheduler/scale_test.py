"""A gang of 10,000 ranks on 1,250 nodes: it opens, runs, loses a node and continues; its events stay small.

The agents are scripts that call the scheduler as real ones do: a call a node, not a call a rank.
"""

from collections.abc import Iterable
from pathlib import Path

from tutti.chassis.events.event import MAX_PAYLOAD_BYTES
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    NODE_STATE_LOST,
    RANK_EVENT_LISTENING,
    RANK_EVENT_READY,
    RANK_EVENT_SPAWNED,
    TRANSITION_STATE_APPLIED,
    Assignment,
    HeartbeatRequest,
    Node,
    RankEvent,
    RegisterNodeRequest,
    ReportProgressRequest,
    ReportRankRequest,
    ReportReleasedRequest,
    Transition,
)
from tutti.scheduler.topology import topology_name
from tutti.scheduler.world_test import CALL, World, request

NODES, SLOTS, LIMIT = 1250, 8, 8 * 1024
JOB = "jobs/a"


def assigned(world: World) -> dict[str, Assignment]:
    """What each node should do, by name; none of them has more than one thing to do."""
    nodes = world.host.units.run(lambda unit: world.tables.nodes.select(unit))
    return {node.name: node.assignments[0] for node in nodes if node.assignments}


def report(world: World, nodes: Iterable[str], event: RankEvent.ValueType) -> None:
    every = assigned(world)
    for node in nodes:
        given = every[node]
        first, *more = given.ranks
        told = ReportRankRequest(job=JOB, epoch=given.epoch, node=node, rank=first, more_ranks=more, event=event)
        world.api.ReportRank(told, CALL)
    world.settle()


def start(world: World, nodes: list[str]) -> None:
    """The ranks of the current epoch spawn, meet and load their state."""
    report(world, nodes, RANK_EVENT_SPAWNED)
    epoch = world.job().epoch
    meeting = ReportRankRequest(job=JOB, epoch=epoch, node=nodes[0], event=RANK_EVENT_LISTENING, address="127.0.0.1:1")
    world.api.ReportRank(meeting, CALL)
    assert assigned(world)[nodes[-1]].rendezvous == "127.0.0.1:1"
    report(world, nodes, RANK_EVENT_READY)
    assert world.job().state == JOB_STATE_RUNNING


def beat(world: World, nodes: Iterable[str]) -> None:
    for node in nodes:
        world.api.Heartbeat(HeartbeatRequest(name=node, incarnation="1"), CALL)


def wait(world: World, seconds: int) -> None:
    for _ in range(seconds):
        world.clock.advance(1)
        world.settle()


def largest(world: World, kind: str) -> int:
    return max(len(payload) for payload in world.payloads(kind))


def test_ten_thousand_ranks_start_lose_a_node_and_continue_with_small_events(tmp_path: Path) -> None:
    world = World(tmp_path)
    nodes = [f"nodes/n{number:04}" for number in range(NODES)]
    for node in nodes:
        world.api.RegisterNode(
            RegisterNodeRequest(name=node, incarnation="1", slots=SLOTS, devices=["cuda:0"], kernel="k"), CALL
        )
    world.settle()
    world.api.CreateJob(request(JOB, ranks=NODES * SLOTS, leaves=NODES * SLOTS, shrink=True), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_STARTING
    start(world, nodes)
    first = world.api.GetTopology(GetRequest(name=topology_name(world.job())), CALL)
    assert [each.rank for each in first.placement] == list(range(NODES * SLOTS))
    assert len({each.node for each in first.placement}) == NODES
    world.hear(world.committer.commit(world.job(), 5))
    world.api.ReportProgress(ReportProgressRequest(job=JOB, epoch=1, node=nodes[0], step=6, loss=3.0), CALL)

    lost, alive = nodes[700], [node for node in nodes if node != nodes[700]]
    wait(world, 10)
    beat(world, alive)
    wait(world, 6)
    assert world.api.GetNode(GetRequest(name=lost), CALL).state == NODE_STATE_LOST
    job = world.job()
    assert (job.state, job.epoch) == (JOB_STATE_STOPPING, 1)
    assert job.history[-1] == f"epoch 1: {lost} lost (not heard of for 15 s)"
    assert job.reason.endswith("nodes/n0006, nodes/n0007 and 1,241 more to release it")
    for node in alive:
        world.api.ReportReleased(ReportReleasedRequest(job=JOB, epoch=1, node=node, incarnation="1"), CALL)
    world.settle()

    # 9,992 slots are no faster than 5,000: the busiest rank computes two microbatches in both cases.
    job = world.job()
    assert (job.state, job.epoch, job.shape.data_parallel, job.decided_step) == (JOB_STATE_STARTING, 2, 5000, 5)
    again = sorted(world.nodes())
    assert len(again) == 625
    assert lost not in again
    start(world, again)
    transition = Transition.FromString(world.payloads("Transition")[-1])
    assert (transition.state, transition.cause) == (TRANSITION_STATE_APPLIED, f"{lost} lost, 9992 of 10000 slots left")
    sizes = {kind: largest(world, kind) for kind in ("Job", "Topology", "Transition", "EpochOpened")}
    assert max(sizes.values()) < LIMIT, sizes
    # The control: with its placement, as GetTopology returns it, the topology would not fit into an event.
    assert first.ByteSize() > MAX_PAYLOAD_BYTES
    assert Node.FromString(world.payloads("Node")[-1]).ByteSize() < LIMIT
