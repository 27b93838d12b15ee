"""Random walks: whatever happens in whatever order, slots are never given twice and every job comes to its end."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tutti.chassis.errors import Problem
from tutti.contracts.common.v1 import CancelRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    NODE_STATE_LEFT,
    RANK_EVENT_FINISHED,
    RANK_EVENT_LISTENING,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    Assignment,
    Node,
    ReportRankRequest,
    ReshapeJobRequest,
)
from tutti.scheduler import gangs, jobs
from tutti.scheduler.world_test import CALL, Agent, World

STEPS = 20
JOBS = ("jobs/a", "jobs/b")
ACTIONS = st.one_of(
    st.sampled_from(["work", "commit", "release"]),
    st.sampled_from(["lose", "silence", "speak", "leave", "restart", "replace", "reshape", "wait", "cancel"]),
)
WALKS = st.lists(st.tuples(ACTIONS, st.integers(0, 7)), max_size=25)


class Walk:
    """Two jobs on two nodes."""

    def __init__(self, folder: Path, world: Callable[[Path], World] = World) -> None:
        self.world = world(folder)
        self.agents = [Agent(self.world, "a"), Agent(self.world, "b")]
        self.epochs = dict.fromkeys(JOBS, 0)
        for at, job in enumerate(JOBS):
            self.world.create(job, ranks=2 + at, shrink=bool(at))

    def act(self, action: str, number: int) -> None:
        at = number % 2
        agent, job = self.agents[at], JOBS[number // 2 % 2]
        if action == "work":
            self.work(agent)
        elif action == "lose":
            self.report(agent, job, RANK_EVENT_LOST)
        elif action == "release":
            agent.release()
        elif action in ("silence", "speak"):
            agent.silent = action == "silence"
        elif action == "leave":
            agent.heartbeat(leaving=True)
        elif action == "restart":
            self.world.start()
        elif action == "replace":
            self.replace(at)
        elif action == "reshape":
            self.refused_or_done(ReshapeJobRequest(job=job, data_parallel=1 + number % 4))
        elif action == "commit":
            self.commit(job)
        elif action == "wait":
            self.world.pass_time(1 + 9 * at)
        elif number == 7:
            self.world.api.CancelJob(CancelRequest(name=job), CALL)
        # A look at everything, as the reconciler has at start: what must not happen is tried at every moment.
        for name in JOBS:
            self.world.wake(name)
        self.world.settle()

    def replace(self, at: int) -> None:
        self.agents[at] = Agent(self.world, "ab"[at], incarnation=f"{self.agents[at].incarnation}+")

    def work(self, agent: Agent) -> None:
        """Every rank that this agent should run gets ready; when the job is decided to its end, it finishes."""
        for each in agent.assignments:
            if not each.stop:
                if 0 in each.ranks:
                    self.report(agent, each.job, RANK_EVENT_LISTENING)
                self.report(agent, each.job, RANK_EVENT_READY)

    def report(self, agent: Agent, job: str, event: int) -> None:
        for each in self.current(agent, job):
            for rank in each.ranks:
                request = ReportRankRequest(
                    job=job,
                    epoch=each.epoch,
                    node=agent.name,
                    rank=rank,
                    event=event,  # type: ignore[arg-type]
                    address="127.0.0.1:1",
                    cause="walk",
                )
                try:
                    self.world.api.ReportRank(request, CALL)
                except Problem as problem:
                    assert problem.reason == "STALE_EPOCH"  # noqa: PT017
        self.world.settle()

    def current(self, agent: Agent, job: str) -> list[Assignment]:
        return [each for each in agent.assignments if each.job == job]

    def refused_or_done(self, request: ReshapeJobRequest) -> None:
        try:
            self.world.api.ReshapeJob(request, CALL)
        except Problem as problem:
            assert problem.reason in ("JOB_ENDED", "SAME_SHAPE")  # noqa: PT017

    def commit(self, name: str) -> None:
        job = self.world.job(name)
        if job.state in jobs.PLACED:
            newest = self.world.committer.newest(name)
            step = min(STEPS, (newest.step if newest else 0) + 5)
            self.world.hear(self.world.committer.commit(job, step))

    def check(self) -> None:
        """What holds at every moment."""
        held: dict[str, list[tuple[int, int, bool]]] = {job: [] for job in JOBS}
        for agent in self.agents:
            node = agent.node
            assert sum(len(each.ranks) for each in node.assignments) <= node.slots
            for each in node.assignments:
                held[each.job] += [(each.epoch, rank, each.stop) for rank in each.ranks]
        for name in JOBS:
            job = self.world.job(name)
            assert job.epoch >= self.epochs[name]
            self.epochs[name] = job.epoch
            active = sorted((epoch, rank) for epoch, rank, stop in held[name] if not stop)
            if job.state in jobs.PLACED:
                assert set(active) <= {(job.epoch, rank) for rank in range(job.shape.data_parallel)}
                assert len(set(active)) == len(active)
            else:
                assert active == []
            assert len(job.history) <= jobs.HISTORY_LINES

    def heal(self) -> None:
        """From now on everybody does what they should."""
        for agent in self.agents:
            agent.silent = False
        for at, agent in enumerate(self.agents):
            if agent.node.state == NODE_STATE_LEFT:
                self.replace(at)
        for _ in range(80):
            self.world.pass_time(1)
            for agent in self.agents:
                agent.release()
                self.work(agent)
            for job in JOBS:
                self.commit(job)
                for agent in self.agents:
                    if self.world.job(job).decided_step >= STEPS:
                        self.report(agent, job, RANK_EVENT_FINISHED)
            self.check()
            if all(self.world.job(job).state in jobs.ENDED for job in JOBS):
                break
        for agent in self.agents:
            agent.release()


def take(walk: list[tuple[str, int]]) -> None:
    """Walk, then heal; raises AssertionError where a promise is broken."""
    with tempfile.TemporaryDirectory() as folder:
        walked = Walk(Path(folder))
        for action, number in walk:
            walked.act(action, number)
            walked.check()
        walked.heal()
        for name in JOBS:
            job = walked.world.job(name)
            assert job.state in jobs.ENDED, job.reason
            if job.state == JOB_STATE_DONE:
                assert (job.decided_step, job.state_digest) == (STEPS, f"state-{STEPS}")
        assert all(agent.assignments == [] for agent in walked.agents)


CAREFUL = settings(derandomize=True, suppress_health_check=list(HealthCheck))


@settings(CAREFUL, max_examples=15, derandomize=False)
@given(WALKS)
def test_slots_are_never_given_twice_and_every_job_ends(walk: list[tuple[str, int]]) -> None:
    take(walk)


_whole_room = gangs.room_of


def hasty_room(node: Node) -> gangs.Room:
    """The room of a node whose slots are given away while ranks still end there."""
    going = Node()
    going.CopyFrom(node)
    del going.assignments[:]
    going.assignments.extend(each for each in node.assignments if not each.stop)
    return _whole_room(going)


def test_a_walk_finds_slots_that_are_given_away_before_they_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "room_of", hasty_room)
    walks = settings(CAREFUL, max_examples=60, phases=[Phase.generate])(given(WALKS)(take))
    with pytest.raises(AssertionError):
        walks()
