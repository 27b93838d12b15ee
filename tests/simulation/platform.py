"""The platform on one thread: every real service, and real agents whose ranks alone are simulated.

Promises: a node's agent, its journal, its spool and its I/O work are the real code; a rank is killed, a rank freezes
and an I/O child dies by seed, each counted.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from tutti.access.service import build as build_access
from tutti.annotation.service import build as build_annotation
from tutti.backbone import uuid7
from tutti.chassis.service import Build, Loop
from tutti.chassis.store.canonical import CanonicalLine, render
from tutti.chat.service import build as build_chat
from tutti.committer.service import build as build_committer
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.contracts.trainer.v1 import Start
from tutti.dedup.service import build as build_dedup
from tutti.evaluation.service import build as build_evaluation
from tutti.ingest.service import build as build_ingest
from tutti.lineage.service import build as build_lineage
from tutti.pipeline.service import build as build_pipeline
from tutti.sampling.service import build as build_sampling
from tutti.scheduler.service import build as build_scheduler
from tutti.simulation import RATES as USUAL_RATES
from tutti.simulation import AgentHost, Control, Fault, Simulation
from tutti.tokenization.service import build as build_tokenization
from tutti.trainer.agent.agent import Agent, AgentState
from tutti.trainer.agent.backgroundcalls import InlineCalls
from tutti.trainer.agent.journal import Journal
from tutti.trainer.agent.ports import AgentSettings
from tutti.trainer.io.buffers import clear
from tutti.trainer.simulated import Gangs, Plant, SimulatedLauncher, SimulatedRank
from tutti.trainer.simulatedio import SimulatedIoLink

T = TypeVar("T")

BUILDS: Mapping[str, Build] = {
    "ingest": build_ingest,
    "dedup": build_dedup,
    "tokenization": build_tokenization,
    "sampling": build_sampling,
    "pipeline": build_pipeline,
    "scheduler": build_scheduler,
    "committer": build_committer,
    "lineage": build_lineage,
    "access": build_access,
    "evaluation": build_evaluation,
    "annotation": build_annotation,
    "chat": build_chat,
}
# A pause longer than the watchdog ends all ranks; at the usual rate the steps of a job would be one long restart.
RATES: Mapping[Fault, float] = {
    **USUAL_RATES,
    Fault.CLOCK_PAUSED: 0.0006,
    Fault.CLOCK_JUMPED: 0.002,
    Fault.CRASHED: 0.0007,
    Fault.STALLED: 0.0005,
    Fault.WORKER_STALLED: 0.15,
    Fault.RPC_LOST_BEFORE: 0.03,
    Fault.RPC_LOST_AFTER: 0.03,
    Fault.RPC_DUPLICATED: 0.03,
    Fault.BLOBS_UNAVAILABLE: 0.05,
    Fault.PUT_UNANSWERED: 0.06,
    Fault.INTERLEAVED: 0.03,
}
SLOTS = 2
MOST = 5
"""How often a node fault strikes a seed at most: a gang of many ranks would hardly ever reach a checkpoint."""


class NodeFault(Enum):
    """What befalls a node beside what befalls every process."""

    RANK_KILLED = "a rank was killed"
    RANK_FROZEN = "a rank stood still and did not end"
    IO_CHILD_DIED = "an I/O child died with what it had not said"


NODE_RATES: Mapping[NodeFault, float] = {
    NodeFault.RANK_KILLED: 0.05,
    NodeFault.RANK_FROZEN: 0.04,
    NodeFault.IO_CHILD_DIED: 0.02,
}


class Defect(BaseException):
    """A rule was broken inside a call of an agent; no Exception, so that no agent takes it for an outage."""


class StrictCourier(InlineCalls):
    """Calls at once; what breaks a rule of the simulation is no answer."""

    def send(self, lane: str, call: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        def checked() -> T:
            try:
                return call()
            except AssertionError as error:
                raise Defect(str(error)) from error

        super().send(lane, checked, then)


class SimulatedAgent:
    """A Loop: an agent and its node."""

    name, interval = "agent", 0.1

    def __init__(self, platform: "Platform", host: AgentHost) -> None:
        self.platform, self.host = platform, host
        files, clock = host.files, host.clock
        buffers = host.folder / "buffers"
        buffers.mkdir(exist_ok=True)
        clear(buffers)
        self.launcher = SimulatedLauncher(platform.gangs, clock, lambda start: platform.faulty(host.name, start))
        self.io = SimulatedIoLink(lambda: host.blobs, files, clock, node=host.name, state=host.folder, buffers=buffers)
        self.agent = Agent(
            AgentSettings(node=host.name, slots=SLOTS, devices=("cpu",), poll=0.5),
            incarnation=uuid7(clock, host.randomness),
            scheduler=SchedulerServiceStub(host.channel("scheduler")),
            committer=CommitterServiceStub(host.channel("committer")),
            sampling=ExperienceServiceStub(host.channel("sampling")),
            background=StrictCourier(),
            clock=clock,
            launcher=self.launcher,
            io=self.io,
            journal=Journal(host.folder / "journal.json", files),
        )

    def step(self) -> bool:
        self._suffer()
        try:
            self.agent.step()
        except Defect as defect:
            raise AssertionError(str(defect)) from defect
        self.interval = 0.1 if self.launcher.ranks else 0.5
        if self.agent.state is AgentState.DONE:
            raise AssertionError(f"the agent of {self.host.name} ended; nobody replaced it")
        return False

    def _suffer(self) -> None:
        platform, ranks = self.platform, [rank for rank in self.launcher.ranks if not rank.gone]
        if ranks and platform.strikes(self.host, NodeFault.RANK_KILLED):
            platform.choose(self.host, ranks).kill()
        if ranks and platform.strikes(self.host, NodeFault.RANK_FROZEN):
            platform.choose(self.host, ranks).frozen = True
        if platform.strikes(self.host, NodeFault.IO_CHILD_DIED):
            self.io.crash()


class Platform:
    """All services and some nodes in a simulation."""

    def __init__(
        self,
        seed: int | str,
        *,
        rates: Mapping[Fault, float] = RATES,
        node_rates: Mapping[NodeFault, float] = NODE_RATES,
        control: Control | None = None,
        replicas: int = 1,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.gangs = Gangs()
        self.faulty: Callable[[str, Start], Plant | None] = lambda node, start: None
        """Set by a test: the step from which on a rank of a node computes every gradient wrong."""
        self.node_faults: Counter[NodeFault] = Counter()
        self._rates = node_rates
        self.agents: dict[str, SimulatedAgent] = {}
        self.simulation = Simulation(seed, BUILDS, replicas=replicas, settings=settings, rates=rates, control=control)

    def add_node(self, name: str) -> None:
        self.simulation.add(name, self._build_agent)

    def _build_agent(self, host: AgentHost) -> list[Loop]:
        if (former := self.agents.get(host.name)) is not None:
            former.launcher.close()
        agent = self.agents[host.name] = SimulatedAgent(self, host)
        return [agent]

    @property
    def running(self) -> list[SimulatedRank]:
        return [rank for agent in self.agents.values() for rank in agent.launcher.ranks if not rank.gone]

    def strikes(self, host: AgentHost, fault: NodeFault) -> bool:
        spared = self.simulation.fate.calm or self.node_faults[fault] == MOST
        struck = not spared and host.randomness.uniform(0, 1) < self._rates.get(fault, 0.0)
        self.node_faults[fault] += struck
        return struck

    def choose(self, host: AgentHost, ranks: list[SimulatedRank]) -> SimulatedRank:
        return ranks[int(host.randomness.uniform(0, len(ranks)))]

    def export(self) -> list[str]:
        """The canonical state of all services, as `tutti export --canonical` has it."""
        lines: list[CanonicalLine] = []
        for name, lives in self.simulation.lives.items():
            service = lives[0].service
            lines += self.simulation.peek(name, lambda unit, service=service: list(service.export(unit)))  # type: ignore[misc]
        return list(render(lines))

    def blob(self, key: str) -> Path:
        """The file of a blob, to be damaged."""
        return Path(self.simulation.world.folder.name) / "blobs" / key

    def close(self) -> None:
        self.simulation.close()
