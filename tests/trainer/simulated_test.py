"""The real agent and I/O work with simulated ranks, on one thread, on a clock that the test owns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti.backbone import ManualClock
from tutti.backbone.files import RealFiles
from tutti.backbone.recording import Operation, RecordingFiles
from tutti.checkpoints.curve import Curve
from tutti.checkpoints.keys import ShardName
from tutti.contracts.scheduler.v1 import RANK_EVENT_FINISHED, Pace
from tutti.trainer.agent.agent import Agent, AgentState
from tutti.trainer.agent.backgroundcalls import InlineCalls
from tutti.trainer.agent.journal import Journal
from tutti.trainer.agent.ports import AgentSettings
from tutti.trainer.simulated import Gangs, SimulatedLauncher
from tutti.trainer.simulatedio import SimulatedIoLink


class Node:
    """A simulated node."""

    def __init__(
        self,
        stage: Any,
        name: str,
        gangs: Gangs,
        clock: ManualClock,
        incarnation: str,
        full: Callable[[Operation], bool] = lambda operation: False,
    ) -> None:
        state = stage.folder / f"sim {name}"
        state.mkdir(exist_ok=True)
        self.launcher = SimulatedLauncher(gangs, clock)
        files = RecordingFiles(RealFiles(), full=full)
        self.io = SimulatedIoLink(lambda: stage.blobs, files, clock, node=name, state=state, buffers=state / "buffers")
        self.agent = Agent(
            AgentSettings(node=name, slots=4, devices=("cpu",)),
            incarnation=incarnation,
            scheduler=stage.plane,
            committer=stage.plane,
            sampling=stage.plane,
            background=InlineCalls(),
            clock=clock,
            launcher=self.launcher,
            io=self.io,
            journal=Journal(state / "journal.json", RealFiles()),
        )


def drive(clock: ManualClock, nodes: list[Node], done: Callable[[], object], steps: int = 5000) -> None:
    for _ in range(steps):
        for node in nodes:
            node.agent.step()
        clock.advance(0.1)
        if done():
            return
    raise AssertionError("not done in time")


def trains(stage: Any, epoch: int) -> bool:
    return any(each.epoch == epoch for each in stage.plane.progress)


def paces(stage: Any) -> list[Pace]:
    return [report.pace for report in stage.plane.progress if report.HasField("pace")]


def lost(stage: Any, epoch: int) -> bool:
    return any(each.epoch == epoch for each in stage.plane.losses)


def train(
    stage: Any,
    dp: int,
    epoch: int,
    *,
    crash_child_at: frozenset[int] = frozenset(),
    full: Callable[[Operation], bool] = lambda operation: False,
) -> dict[int, Any]:
    """The digests of an attempt over two nodes; there is no room for the operations `full` of their I/O children."""
    clock, gangs = ManualClock(), Gangs()
    nodes = [Node(stage, name, gangs, clock, f"{name}{epoch}", full) for name in "ab"]
    drive(clock, nodes, lambda: all(node.agent.state is AgentState.SERVING for node in nodes))
    training = stage.training()
    split = (dp + 1) // 2
    for node, ranks in (("a", range(split)), ("b", range(split, dp))):
        given_ = [stage.assignment(training, epoch=epoch, ranks=tuple(ranks), dp=dp)] if ranks else []
        stage.plane.assign(node, *given_)
    before = len(stage.plane.events(RANK_EVENT_FINISHED))
    turn = 0

    def done() -> bool:
        nonlocal turn
        turn += 1
        if turn in crash_child_at:
            nodes[turn % 2].io.crash()
        finished = len(stage.plane.events(RANK_EVENT_FINISHED)) - before == dp
        stored = {(step, rank) for step, of, rank in stage.plane.reports() if of == epoch}
        return finished and len(stored) == 3 * dp

    drive(clock, nodes, done)
    assert not stage.plane.losses
    for node in "ab":
        stage.plane.assign(node)
    found: dict[int, Any] = stage.plane.digests(epoch)
    return found


def told(stage: Any, epoch: int) -> dict[int, bytes]:
    """Of every step the curve that its nodes told: each node one, all the same."""
    found: dict[int, set[bytes]] = {}
    for (step, of, _), report in stage.plane.reports().items():
        if of == epoch and report.curve:
            found.setdefault(step, set()).add(report.curve)
    assert all(len(curves) == 1 for curves in found.values())
    return {step: curves.pop() for step, curves in sorted(found.items())}


def test_any_number_of_simulated_ranks_stores_the_same_states(stage: Any) -> None:
    one, two, three = (train(stage, dp, epoch) for epoch, dp in enumerate((1, 2, 3), start=1))
    assert sorted(one) == [2, 4, 6]
    assert one == two == three
    curves = {epoch: told(stage, epoch) for epoch in (1, 2, 3)}
    assert curves[1] == curves[2] == curves[3]
    assert [list(Curve.decode(data).steps["step"]) for data in curves[1].values()] == [[1, 2], [3, 4], [5, 6]]


def test_a_snapshot_that_can_never_be_stored_is_told_with_its_reason(stage: Any) -> None:
    name = ShardName("tiny", 0, 4, 1, 0, "a")
    stage.blobs.put_if_absent(name.shard_key, b"bytes of somebody else")
    clock = ManualClock()
    node = Node(stage, "a", Gangs(), clock, "a1")
    drive(clock, [node], lambda: node.agent.state is AgentState.SERVING)
    stage.plane.assign("a", stage.assignment(stage.training()))
    drive(clock, [node], lambda: len(stage.plane.shards) == 3)
    told = sorted((each.step, bool(each.report_key), bool(each.error)) for each in stage.plane.shards)
    assert told == [(2, True, False), (4, False, True), (6, True, False)]
    lost = next(each for each in stage.plane.shards if each.error)
    assert (lost.job, lost.epoch, lost.rank, lost.node) == ("jobs/tiny", 1, 0, "nodes/a")
    assert "was stored before with other bytes" in lost.error


def test_a_rank_that_freezes_is_named_and_the_attempt_ends(stage: Any) -> None:
    clock = ManualClock()
    node = Node(stage, "a", Gangs(), clock, "a1")
    drive(clock, [node], lambda: node.agent.state is AgentState.SERVING)
    training = stage.training(steps=100_000, checkpoint_every=100_000)
    stage.plane.assign("a", stage.assignment(training, ranks=(0, 1), dp=2))
    drive(clock, [node], lambda: stage.plane.last_step > 3)
    node.launcher.ranks[1].frozen = True
    drive(clock, [node], lambda: stage.plane.losses)
    assert [loss.rank for loss in stage.plane.losses] == [1]
    stage.plane.assign("a")
    drive(clock, [node], lambda: stage.plane.released)


def test_a_step_that_takes_long_is_no_hang_while_a_rank_computes(stage: Any) -> None:
    """A validation or a rollout may take longer than the limit of the watchdog; one that hangs may not."""
    clock = ManualClock()
    node = Node(stage, "a", Gangs(), clock, "a1")
    drive(clock, [node], lambda: node.agent.state is AgentState.SERVING)
    training = stage.training(steps=100_000, checkpoint_every=100_000)
    stage.plane.assign("a", stage.assignment(training, ranks=(0, 1), dp=2))
    drive(clock, [node], lambda: stage.plane.last_step > 3)
    limit = AgentSettings(node="a", slots=1, devices=("cpu",)).stall
    for rank in node.launcher.ranks:
        rank.held = True
    node.launcher.ranks[1].works = True
    begun, reports = clock.monotonic(), len(stage.plane.progress)
    drive(clock, [node], lambda: clock.monotonic() - begun > 3 * limit, steps=20_000)
    assert not stage.plane.losses
    again = stage.plane.progress[reports + 1 :]
    assert len(again) > 3 * limit / 60
    assert {report.step for report in again} == {stage.plane.last_step}
    node.launcher.ranks[1].works = False
    begun = clock.monotonic()
    drive(clock, [node], lambda: stage.plane.losses)
    assert limit < clock.monotonic() - begun < limit + 10
    assert "no rank made progress for 300." in stage.plane.losses[0].cause


def test_a_slow_rank_on_another_node_is_named_by_the_node_of_the_lowest_rank(stage: Any) -> None:
    clock, gangs = ManualClock(), Gangs()
    nodes = [Node(stage, name, gangs, clock, f"{name}1") for name in "ab"]
    drive(clock, nodes, lambda: all(node.agent.state is AgentState.SERVING for node in nodes))
    training = stage.training(steps=100_000, checkpoint_every=100_000)
    for node, ranks in (("a", (0, 1)), ("b", (2, 3))):
        stage.plane.assign(node, stage.assignment(training, ranks=ranks, dp=4))
    drive(clock, nodes, lambda: paces(stage))
    assert [len(found.stragglers) for found in paces(stage)] == [0]
    nodes[1].launcher.ranks[0].slow = 0.3
    drive(clock, nodes, lambda: any(found.stragglers for found in paces(stage)))
    (slow,) = paces(stage)[-1].stragglers
    assert (slow.rank, round(slow.ratio, 3)) == (2, 4.0)
    assert {report.node for report in stage.plane.progress if report.HasField("pace")} == {"nodes/a"}
    assert not stage.plane.losses


def test_a_rank_that_is_silent_again_on_the_same_node_had_twice_the_time(stage: Any) -> None:
    clock = ManualClock()
    node = Node(stage, "a", Gangs(), clock, "a1")
    drive(clock, [node], lambda: node.agent.state is AgentState.SERVING)
    training, limits = stage.training(steps=100_000, checkpoint_every=100_000), []
    for epoch in (1, 2, 3):
        stage.plane.assign("a", stage.assignment(training, epoch=epoch))
        drive(clock, [node], partial(trains, stage, epoch))
        node.launcher.ranks[-1].frozen = True
        begun = clock.monotonic()
        drive(clock, [node], partial(lost, stage, epoch))
        limits.append(clock.monotonic() - begun)
    own = node.agent.settings
    expected = [own.silence / 2 * 2**n + own.dump for n in range(3)]
    assert limits == pytest.approx(expected, abs=2.0)


def test_an_agent_that_another_one_replaced_ends_its_ranks_and_stops(stage: Any) -> None:
    clock = ManualClock()
    old = Node(stage, "a", Gangs(), clock, "first")
    drive(clock, [old], lambda: old.agent.state is AgentState.SERVING)
    stage.plane.assign("a", stage.assignment(stage.training(steps=100_000, checkpoint_every=100_000)))
    drive(clock, [old], lambda: stage.plane.last_step > 3)
    ranks = list(old.launcher.ranks)
    stage.plane.nodes["nodes/a"].incarnation = "second"
    stage.plane.nodes["nodes/a"].revision += 1
    drive(clock, [old], lambda: old.agent.state is AgentState.DONE)
    assert old.agent.superseded
    assert all(rank.gone for rank in ranks)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crashes=st.frozensets(st.integers(1, 60), max_size=6))
def test_io_children_that_crash_anywhere_lose_no_snapshot(
    tmp_path_factory: Any, crashes: frozenset[int], make_stage: Callable[[Path], Any]
) -> None:
    stage = make_stage(tmp_path_factory.mktemp("stage"))
    assert sorted(train(stage, 2, 1, crash_child_at=crashes)) == [2, 4, 6]


def test_a_run_whose_disk_is_full_for_a_while_waits_and_stores_the_same_states(stage: Any) -> None:
    refused = iter(range(20))

    def full(operation: Operation) -> bool:
        return operation.kind == "write" and next(refused, None) is not None

    assert train(stage, 2, 2, full=full) == train(stage, 2, 1)
    assert next(refused, None) is None
