"""Who is to blame: simulated ranks of three nodes, their real agents and the real scheduler, on a clock of the test.

All settings are the defaults, but for a watchdog of stalls of 30 s.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tutti.backbone import ManualClock
from tutti.backbone.files import RealFiles
from tutti.contracts.scheduler.v1 import JOB_STATE_RUNNING, CreateJobRequest, Job, JobSpec, RankLost
from tutti.scheduler.world_test import CALL, World
from tutti.trainer.agent.agent import Agent
from tutti.trainer.agent.backgroundcalls import InlineCalls
from tutti.trainer.agent.journal import Journal
from tutti.trainer.agent.ports import AgentSettings
from tutti.trainer.simulated import Gangs, SimulatedLauncher, SimulatedRank
from tutti.trainer.simulatedio import SimulatedIoLink

STALL_SECONDS = 30.0
NODES = {0: "nodes/a", 1: "nodes/a", 2: "nodes/b", 3: "nodes/c"}


class Scheduler:
    """The scheduler as an agent calls it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, method: str) -> Callable[[Any], Any]:
        return lambda request: getattr(self._world.api, method)(request, CALL)


class Platform:
    """Four ranks on three nodes."""

    def __init__(self, stage: Any, folder: Path) -> None:
        self.world = World(folder)
        self.clock: ManualClock = self.world.clock
        gangs = Gangs()
        self.launchers = {name: SimulatedLauncher(gangs, self.clock) for name in "abc"}
        self.agents = [self._agent(stage, name, slots) for name, slots in (("a", 2), ("b", 1), ("c", 1))]
        self.drive(2.0)
        training = stage.training(steps=100_000, checkpoint_every=100_000)
        self.world.api.CreateJob(
            CreateJobRequest(
                name="jobs/a",
                spec=JobSpec(
                    training=training.to_json(),
                    training_digest=training.digest(),
                    dataset_manifest_key=stage.manifest_key,
                    dataset_digest=stage.digest,
                    leaves=training.step.leaves,
                    steps=training.steps,
                    data_parallel=4,
                ),
            ),
            CALL,
        )
        self.until(lambda: self.job.step > 3)
        assert {rank: self.rank(rank).number for rank in NODES} == {rank: rank for rank in NODES}

    def _agent(self, stage: Any, name: str, slots: int) -> Agent:
        state = stage.folder / f"blame {name}"
        state.mkdir()
        io = SimulatedIoLink(
            lambda: stage.blobs, RealFiles(), self.clock, node=name, state=state, buffers=state / "buffers"
        )
        return Agent(
            AgentSettings(node=name, slots=slots, devices=("cpu",), stall=STALL_SECONDS),
            incarnation=f"{name}1",
            scheduler=Scheduler(self.world),
            committer=stage.plane,
            sampling=stage.plane,
            background=InlineCalls(),
            clock=self.clock,
            launcher=self.launchers[name],
            io=io,
            journal=Journal(state / "journal.json", RealFiles()),
        )

    @property
    def job(self) -> Job:
        return self.world.job()

    @property
    def losses(self) -> list[tuple[int, str]]:
        lost = [RankLost.FromString(payload) for payload in self.world.payloads("RankLost")]
        return [(each.rank, each.node) for each in lost]

    def rank(self, number: int) -> SimulatedRank:
        launcher = self.launchers[NODES[number].removeprefix("nodes/")]
        return next(rank for rank in launcher.ranks if rank.number == number)

    def drive(self, seconds: float) -> None:
        """Let the agents and the scheduler work for a time."""
        for _ in range(round(seconds / 0.1)):
            for agent in self.agents:
                agent.step()
            self.world.settle()
            self.clock.advance(0.1)

    def until(self, done: Callable[[], object], most: float = 200.0) -> None:
        begun = self.clock.monotonic()
        while not done():
            assert self.clock.monotonic() - begun < most, self.job
            self.drive(0.5)


@pytest.fixture
def platform(stage: Any, tmp_path: Path) -> Platform:
    return Platform(stage, tmp_path / "world")


def test_a_clean_run_names_nobody(platform: Platform) -> None:
    before = platform.job.history
    platform.drive(3 * STALL_SECONDS)
    job = platform.job
    assert (job.state, job.history, list(job.stragglers), platform.losses) == (JOB_STATE_RUNNING, before, [], [])


def test_a_straggler_is_named_with_its_node_and_trains_on(platform: Platform) -> None:
    platform.rank(2).slow = 0.3
    platform.until(lambda: platform.job.stragglers)
    job = platform.job
    assert [(each.rank, each.node, round(each.ratio, 3)) for each in job.stragglers] == [(2, "nodes/b", 4.0)]
    assert (job.state, job.epoch, platform.losses) == (JOB_STATE_RUNNING, 1, [])


@pytest.mark.parametrize("guilty", [0, 2, 3])
def test_a_rank_that_hangs_is_named_by_whichever_node_it_is_on(platform: Platform, guilty: int) -> None:
    platform.rank(guilty).held = True
    platform.until(lambda: platform.losses)
    assert platform.losses == [(guilty, NODES[guilty])]
    assert f"rank {guilty} on {NODES[guilty]}" in "".join(platform.job.history)


@pytest.mark.parametrize("guilty", [1, 3])
def test_a_rank_that_does_not_answer_is_named_and_those_that_wait_for_it_are_not(
    platform: Platform, guilty: int
) -> None:
    platform.rank(guilty).frozen = True
    platform.until(lambda: platform.losses)
    assert platform.losses == [(guilty, NODES[guilty])]


def test_a_cycle_of_three_ranks_on_three_nodes_is_named_as_one(platform: Platform) -> None:
    for rank, other in ((0, 2), (2, 3), (3, 0)):
        platform.rank(rank).held, platform.rank(rank).waits_for = True, other
    platform.until(lambda: platform.losses)
    assert platform.losses == [(0, "nodes/a"), (2, "nodes/b"), (3, "nodes/c")]
    (line,) = [line for line in platform.job.history if "cycle" in line]
    assert all(f"rank {rank} on {NODES[rank]}" in line for rank in (0, 2, 3))


def test_a_rank_that_computes_for_long_is_not_named_while_those_of_other_nodes_wait(platform: Platform) -> None:
    for rank in NODES:
        platform.rank(rank).held = True
    platform.rank(3).works = True
    platform.drive(4 * STALL_SECONDS)
    assert (platform.job.state, platform.losses) == (JOB_STATE_RUNNING, [])
    for rank in NODES:
        platform.rank(rank).held = False
    crossed = platform.rank(0).step
    platform.drive(5.0)
    assert platform.rank(0).step > crossed


def test_a_scheduler_that_never_decides_does_not_keep_a_hung_gang(platform: Platform) -> None:
    """It may be older than its agents, and not know the call."""
    platform.world.api.ReportStall = lambda request, call: None
    platform.rank(2).held = True
    platform.until(lambda: platform.losses)
    assert platform.job.state != JOB_STATE_RUNNING
    assert (2, "nodes/b") in platform.losses
