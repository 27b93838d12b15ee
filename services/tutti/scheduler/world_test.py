"""The scheduler alone in a world of its own, for its tests: an embedded database, a clock that is moved by hand, a
committer and agents that do what a test tells them.

Promises: nothing moves by itself; `settle` steps the loops until they rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf.message import Message
from pydantic import BaseModel
from sqlalchemy import MetaData, select

from tutti.backbone import Blobs, Clock, Database, ManualClock, Randomness, SeededRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import AlreadyExists, NotFound, Problem, Refused, StaleEpoch
from tutti.chassis.events.event import Event
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Home, Service
from tutti.chassis.store.tables import shared
from tutti.chassis.store.unit import Units
from tutti.chassis.work.reconciler import Reconciler
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    DivergenceDetected,
    Line,
    OpenEpochRequest,
    OpenEpochResponse,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_QUEUED,
    RANK_EVENT_FINISHED,
    RANK_EVENT_LISTENING,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    RANK_EVENT_SPAWNED,
    Assignment,
    AuditFailure,
    CreateJobRequest,
    Disagreement,
    HeartbeatRequest,
    Job,
    JobSpec,
    Node,
    RegisterNodeRequest,
    ReportProgressRequest,
    ReportRankRequest,
    ReportReleasedRequest,
)
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training
from tutti.scheduler.service import build
from tutti.scheduler.topology import topology_name

CALL = Call(role=Role.SERVICE, request_id="", peer="test", deadline_seconds=10)
DATASET = "blake3:" + "d" * 64
METADATA = shared()


class Peer:
    """A channel to an API object in the same thread."""

    def __init__(self, api: object) -> None:
        self._api = api

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Callable[..., Message]:
        answer = getattr(self._api, method.rpartition("/")[2], None)
        return lambda request, **_: answer(request, CALL)  # type: ignore[misc]


@dataclass
class Committer:
    """Opens epochs and holds checkpoints; `down` makes every call fail,
    `forgets` the answer of OpenEpoch alone; `meanwhile` is called before it answers."""

    opened: list[OpenEpochRequest] = field(default_factory=list)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    lines: int = 0
    given_up: int = 0
    given_up_because: str = ""
    line_reason: str = ""
    stuck: bool = False
    down: Problem | None = None
    forgets: Problem | None = None
    meanwhile: Callable[[], object] = lambda: None

    def OpenEpoch(self, request: OpenEpochRequest, call: Call) -> OpenEpochResponse:
        self._check()
        highest = max((each.epoch for each in self.opened if each.job == request.job), default=0)
        if request.epoch < highest:
            raise StaleEpoch(f"epoch {highest} was opened")
        same = next((each for each in self.opened if (each.job, each.epoch) == (request.job, request.epoch)), None)
        if same is not None and same != request:
            raise AlreadyExists(request.job, ours="a", theirs="b")
        self.opened.append(request)
        self.meanwhile()
        if self.forgets is not None:
            raise self.forgets
        newest = self.newest(request.job, request.trusted_step if request.HasField("trusted_step") else None)
        self.lines += request.HasField("trusted_step")
        if newest is None:
            return OpenEpochResponse(line=self.lines)
        if newest.shape.digest != request.shape.digest and not request.transition:
            raise Refused("TOPOLOGY_CHANGED", f"{newest.name} has another shape; record a transition")
        return OpenEpochResponse(
            checkpoint=newest.name,
            manifest_key=newest.manifest_key,
            step=newest.step,
            line=self.lines,
            state_digest=newest.state_digest,
            shape=newest.shape,
        )

    def GetLine(self, request: GetRequest, call: Call) -> Line:
        self._check()
        job = "jobs/" + request.name.split("/")[1]
        opened = [each.epoch for each in self.opened if each.job == job]
        if not opened:
            raise NotFound(request.name)
        newest = self.newest(job)
        return Line(
            name=request.name,
            head=newest.step if newest else 0,
            epoch=max(opened),
            given_up=self.given_up,
            given_up_because=self.given_up_because,
            reason=self.line_reason,
            stuck=self.stuck,
        )

    def GetCheckpoint(self, request: GetRequest, call: Call) -> Checkpoint:
        self._check()
        if request.name not in self.checkpoints:
            raise NotFound(request.name)
        return self.checkpoints[request.name]

    def commit(self, job: Job, step: int) -> Checkpoint:
        name = f"checkpoints/{job.name.removeprefix('jobs/')}/{job.line}/{step}"
        self.checkpoints[name] = Checkpoint(
            name=name,
            job=job.name,
            line=job.line,
            step=step,
            epoch=job.epoch,
            shape=job.shape,
            state=CHECKPOINT_STATE_COMMITTED,
            manifest_key=f"committer/manifests/{step}.json",
            state_digest=f"state-{step}",
            model_digest=f"model-{step}",
            bits_per_byte=1.5,
            loss=2.5,
        )
        return self.checkpoints[name]

    def newest(self, job: str, trusted_step: int | None = None) -> Checkpoint | None:
        whole = [each for each in self.checkpoints.values() if each.state == CHECKPOINT_STATE_COMMITTED]
        own = [each for each in whole if each.job == job and (trusted_step is None or each.step <= trusted_step)]
        return max(own, key=lambda each: (each.line, each.step), default=None)

    def _check(self) -> None:
        if self.down is not None:
            raise self.down


@dataclass
class WorldHost:
    database: Database
    blobs: Blobs
    clock: Clock
    units: Units
    metadata: MetaData
    peers: dict[str, object]
    randomness: Randomness
    service: str = "scheduler"
    pool: Any = None

    def channel(self, service: str) -> grpc.Channel:
        return cast(grpc.Channel, Peer(self.peers[service]))

    def home(self) -> Home:
        raise AssertionError("no program is started here")

    def settings(self, model: type[Any]) -> Any:
        assert issubclass(model, BaseModel)
        return model()


class World:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.committer = Committer()
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.blobs = EmbeddedBlobs(folder / "blobs")
        self.randomness = SeededRandomness(1)
        self.agents: list[Agent] = []
        self.start()

    def start(self) -> None:
        """The scheduler starts (anew) on what its database holds."""
        metadata = METADATA
        units = Units(self.database, "scheduler", metadata, clock=self.clock, randomness=self.randomness)
        self.host = WorldHost(
            self.database, self.blobs, self.clock, units, metadata, {"committer": self.committer}, self.randomness
        )
        self.service: Service = build(self.host)
        units.facts = frozenset(self.service.facts)
        self.database.create(metadata)
        api: Any = self.service.serves[0].api
        self.api, self.tables = api, api.tables

    def wake(self, job: str) -> None:
        next(loop for loop in self.service.loops if isinstance(loop, Reconciler)).wake(job)

    def settle(self) -> None:
        """Step the loops until they rest."""
        for _ in range(200):
            if not any([loop.step() for loop in self.service.loops]):
                return
        raise AssertionError("the loops never rest")

    def pass_time(self, seconds: float) -> None:
        """Let time pass while the scheduler is up; agents that are not silent are heard."""
        while seconds > 0:
            for agent in self.agents:
                if not agent.silent:
                    agent.heartbeat()
            moment = min(seconds, 1.0)
            self.clock.advance(moment)
            seconds -= moment
            self.settle()

    def pass_backoff(self, job: str = "jobs/a") -> None:
        """Let the time pass that a job whose attempt failed waits for the next one."""
        self.settle()
        found = self.job(job)
        if found.state == JOB_STATE_QUEUED and found.HasField("retry_at"):
            left = found.retry_at.ToDatetime(self.clock.now().tzinfo) - self.clock.now()
            self.pass_time(max(left.total_seconds(), 0.0))

    def create(
        self, name: str = "jobs/a", *, ranks: int = 2, shrink: bool = False, steps: int = 20, attempts: int = 0
    ) -> Job:
        asked = request(name, ranks=ranks, shrink=shrink, steps=steps)
        asked.spec.attempts = attempts
        created = self.api.CreateJob(asked, CALL).job
        self.settle()
        found: Job = created
        return found

    def job(self, name: str = "jobs/a") -> Job:
        found: Job = self.api.GetJob(GetRequest(name=name), CALL)
        return found

    def nodes(self, job: str = "jobs/a") -> set[str]:
        """The nodes that the ranks of a job are placed on."""
        topology = topology_name(self.job(job))
        return {placed.node for placed in self.api.GetTopology(GetRequest(name=topology), CALL).placement}

    def payloads(self, kind: str) -> list[bytes]:
        """The payloads of the events of a type that were emitted, in order."""
        outbox = self.host.units.tables.outbox
        rows = select(outbox.c.payload).where(outbox.c.type == f"tutti.scheduler.v1.{kind}").order_by(outbox.c.seq)
        return self.host.units.run(lambda unit: [bytes(row.payload) for row in unit.tx.execute(rows).all()])

    def hear_committed(self, checkpoint: Checkpoint) -> None:
        """The event that a checkpoint was committed arrives, whatever became of it since."""
        before = Checkpoint()
        before.CopyFrom(checkpoint)
        before.state = CHECKPOINT_STATE_COMMITTED
        self.hear(before)

    def hear(self, checkpoint: Checkpoint) -> None:
        """The event of a checkpoint arrives."""
        event = Event("1", "", checkpoint.name, 1, self.clock.now(), "", checkpoint)
        self._handle(event)

    def hear_diverged(self, fact: DivergenceDetected) -> None:
        """The event of a divergence arrives."""
        self._handle(Event("1", "", fact.checkpoint, 1, self.clock.now(), "", fact))

    def _handle(self, event: Event) -> None:
        handler = next(each.handler for each in self.service.consumes if each.message is type(event.message))
        self.host.units.run(lambda unit: handler(unit, [event]))
        self.settle()


class Agent:
    """A node's agent: registers at once, and does what it is told to."""

    def __init__(
        self,
        world: World,
        name: str = "a",
        *,
        slots: int = 2,
        incarnation: str = "1",
        kernel: str = "",
        folder: str = "",
    ) -> None:
        self._world, self.name, self.incarnation = world, f"nodes/{name}", incarnation
        self.silent = False
        world.agents = [*(each for each in world.agents if each.name != self.name), self]
        world.api.RegisterNode(
            RegisterNodeRequest(
                name=self.name, incarnation=incarnation, slots=slots, devices=["cpu"], kernel=kernel, folder=folder
            ),
            CALL,
        )
        world.settle()

    @property
    def node(self) -> Node:
        found: Node = self._world.api.GetNode(GetRequest(name=self.name), CALL)
        return found

    @property
    def assignments(self) -> list[Assignment]:
        return list(self.node.assignments)

    def heartbeat(self, *, leaving: bool = False) -> None:
        request = HeartbeatRequest(name=self.name, incarnation=self.incarnation, leaving=leaving)
        self._world.api.Heartbeat(request, CALL)
        self._world.settle()

    def report(self, event: int, *ranks: int, epoch: int = 0, job: str = "jobs/a", **more: Any) -> None:
        """Report the event of these ranks, or of all that were assigned to this node."""
        own = next((each for each in self.assignments if each.job == job), None)
        assert own is not None or ranks
        for rank in ranks or (own.ranks if own else ()):
            self._world.api.ReportRank(
                ReportRankRequest(
                    job=job,
                    epoch=epoch or self._world.job(job).epoch,
                    node=self.name,
                    rank=rank,
                    event=event,  # type: ignore[arg-type]
                    **more,
                ),
                CALL,
            )
        self._world.settle()

    def spawn(self) -> None:
        self.report(RANK_EVENT_SPAWNED)

    def listen(self, address: str = "127.0.0.1:4000") -> None:
        self.report(RANK_EVENT_LISTENING, 0, address=address)

    def ready(self, *ranks: int) -> None:
        self.report(RANK_EVENT_READY, *ranks)

    def finish(self) -> None:
        self.report(RANK_EVENT_FINISHED)

    def lose(self, rank: int, cause: str = "killed by signal 9", step: int = 7, **more: Any) -> None:
        self.report(RANK_EVENT_LOST, rank, cause=cause, step=step, **more)

    def fail_audit(
        self,
        step: int,
        *,
        convicted: Sequence[int] = (),
        disagreements: Sequence[tuple[int, int]] = (),
        job: str = "jobs/a",
    ) -> None:
        """The first rank of this node reports what all ranks found."""
        pairs = [Disagreement(rank=rank, witness=witness) for rank, witness in disagreements]
        audit = AuditFailure(step=step, convicted=convicted, disagreements=pairs)
        first = next(each.ranks[0] for each in self.assignments if each.job == job)
        self.report(RANK_EVENT_LOST, first, job=job, cause="an audit failed", step=step - 1, audit=audit)

    def progress(self, step: int, loss: float = 3.0, *, epoch: int = 0) -> None:
        job = self._world.job()
        self._world.api.ReportProgress(
            ReportProgressRequest(job=job.name, epoch=epoch or job.epoch, node=self.name, step=step, loss=loss), CALL
        )
        self._world.settle()

    def release(self, *, backoff: bool = True) -> None:
        """Report everything that was asked to stop as gone; then the time of the backoff passes."""
        jobs = {each.job for each in self.assignments if each.stop}
        for each in self.assignments:
            if each.stop:
                self._world.api.ReportReleased(
                    ReportReleasedRequest(job=each.job, epoch=each.epoch, node=self.name, incarnation=self.incarnation),
                    CALL,
                )
        self._world.settle()
        for job in jobs if backoff else ():
            self._world.pass_backoff(job)

    def run(self) -> None:
        """All ranks of this node spawn, meet and load."""
        if any(0 in each.ranks for each in self.assignments):
            self.listen()
        self.ready()


def training(steps: int = 20, leaves: int = 8) -> Training:
    return Training(
        model=ModelSpec(vocabulary=512, width=32, layers=1, heads=2, kv_heads=2, hidden=64, context=64),
        optimizer=OptimizerSpec(peak_rate=1e-3, steps=steps),
        step=StepSpec(leaves=leaves),
        dataset=DATASET,
        checkpoint_every=5,
    )


def request(name: str, *, ranks: int, shrink: bool = False, steps: int = 20, leaves: int = 8) -> CreateJobRequest:
    trained = training(steps, leaves)
    return CreateJobRequest(
        name=name,
        spec=JobSpec(
            training=trained.to_json(),
            training_digest=trained.digest(),
            dataset_manifest_key="tokenization/manifests/d.json",
            dataset_digest=DATASET,
            leaves=trained.step.leaves,
            steps=steps,
            data_parallel=ranks,
            shrink=shrink,
        ),
    )
