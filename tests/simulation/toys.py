"""Three tiny services that owe each other something: enough to prove the chassis and its simulation.

`ingest` does long work as tasks; `scheduler` reads its snapshots, opens an account at the committer and pays it step by
step, one fact a step; `committer` adds up what it is paid. Each job of n steps must be worth exactly n(n+1)/2.
"""

import hashlib
from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, insert, select, update

from tutti.chassis.events.event import Event
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Consumed, Host, Loop, Served, Service, TaskKind
from tutti.chassis.store import crud
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Task, TaskContext
from tutti.chassis.work.reconciler import Reconciler, Trouble
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    DivergenceDetected,
    Line,
    OpenEpochRequest,
    OpenEpochResponse,
)
from tutti.contracts.committer.v1.committer_pb2 import DESCRIPTOR as COMMITTER
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_PENDING, GetRequest
from tutti.contracts.ingest.v1 import CreateIngestRequest, CreateIngestResponse, Ingest
from tutti.contracts.ingest.v1.ingest_pb2 import DESCRIPTOR as INGEST
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    NODE_STATE_READY,
    CreateJobRequest,
    CreateJobResponse,
    EpochOpened,
    HeartbeatRequest,
    HeartbeatResponse,
    Job,
    Node,
    RankLost,
    RegisterNodeRequest,
)
from tutti.contracts.scheduler.v1.scheduler_pb2 import DESCRIPTOR as SCHEDULER
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.simulation import AgentHost


def digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


class IngestToy:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.ingests = Resource(host.metadata, "ingests", Ingest, {"state": lambda each: each.state})

    def CreateIngest(self, request: CreateIngestRequest, call: Call) -> CreateIngestResponse:
        made = Ingest(name=request.name, spec=request.spec, state=STATE_PENDING)

        def record(unit: Unit) -> Ingest:
            created = self.ingests.create(unit, made, request)
            unit.enqueue("ingest", request.name, id=request.name)
            return created

        return CreateIngestResponse(ingest=self.host.units.run(record))

    def GetIngest(self, request: GetRequest, call: Call) -> Ingest:
        return crud.get(self.host.units, self.ingests, request, call.principal)

    def work(self, context: TaskContext) -> Finish:
        found = self.host.units.run(lambda unit: self.ingests.get(unit, context.task.resource))
        context.check()
        name = context.pool(digest, found.spec.input_path)
        self.host.blobs.put_if_absent(f"ingest/manifests/{name}.json", found.spec.input_path.encode())
        context.check()

        def finish(unit: Unit) -> None:
            ingest = self.ingests.lock(unit, context.task.resource)
            ingest.state, ingest.documents = STATE_DONE, ingest.documents + len(found.spec.input_path)
            ingest.result.manifest_key = f"ingest/manifests/{name}.json"
            self.ingests.put(unit, ingest)

        return finish

    def failed(self, unit: Unit, task: Task, reason: str) -> None:
        ingest = self.ingests.lock(unit, task.resource)
        ingest.state, ingest.reason = STATE_FAILED, reason
        self.ingests.put(unit, ingest)


def build_ingest(host: Host) -> Service:
    toy = IngestToy(host)
    return Service(
        name="ingest",
        resources=[toy.ingests],
        serves=[Served(INGEST.services_by_name["IngestService"], toy)],
        tasks=[TaskKind("ingest", toy.work, toy.failed)],
    )


class SchedulerToy:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.jobs = Resource(host.metadata, "jobs", Job, {"state": lambda each: each.state})
        self.nodes = Resource(host.metadata, "nodes", Node)
        self.inputs = declare(
            "inputs",
            host.metadata,
            Column("name", NAME, primary_key=True),
            Column("documents", BigInteger, nullable=False),
        )
        self.reconciler = Reconciler("jobs", host, open=self.open_jobs, advance=self.advance, tell=self.tell)
        self.committer = CommitterServiceStub(host.channel("committer"))

    def CreateJob(self, request: CreateJobRequest, call: Call) -> CreateJobResponse:
        made = Job(name=request.name, spec=request.spec, state=JOB_STATE_QUEUED)

        def record(unit: Unit) -> Job:
            unit.on_commit(lambda: self.reconciler.wake(request.name))
            return self.jobs.create(unit, made, request)

        return CreateJobResponse(job=self.host.units.run(record))

    def GetJob(self, request: GetRequest, call: Call) -> Job:
        return crud.get(self.host.units, self.jobs, request, call.principal)

    def RegisterNode(self, request: RegisterNodeRequest, call: Call) -> Node:
        def record(unit: Unit) -> Node:
            made = Node(name=request.name, slots=request.slots, state=NODE_STATE_READY)
            created = self.nodes.create(unit, made)
            if created.incarnation == request.incarnation:
                return created
            node = self.nodes.lock(unit, request.name)
            node.incarnation = request.incarnation
            return self.nodes.put(unit, node)

        return self.host.units.run(record)

    def Heartbeat(self, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
        return HeartbeatResponse(revision=self.host.units.run(lambda unit: self.nodes.get(unit, request.name)).revision)

    def on_ingest(self, unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            if event.message.state == STATE_DONE:
                unit.tx.execute(insert(self.inputs).values(name=event.subject, documents=event.message.documents))
                for job in self.jobs.select(unit, state=JOB_STATE_QUEUED):
                    unit.on_commit(lambda name=job.name: self.reconciler.wake(name))  # type: ignore[misc]

    def tell(self, unit: Unit, name: str, trouble: Trouble | None) -> None:
        """The toy's job says it all by its state."""

    def open_jobs(self, unit: Unit) -> list[str]:
        return [job.name for job in self.jobs.select(unit, state=[JOB_STATE_QUEUED, JOB_STATE_RUNNING])]

    def advance(self, name: str) -> bool:
        job, ready = self.host.units.run(
            lambda unit: (
                self.jobs.get(unit, name),
                unit.tx.execute(select(self.inputs.c.name)).first() is not None,
            )
        )
        if job.state == JOB_STATE_QUEUED and ready:
            self.committer.OpenEpoch(OpenEpochRequest(job=name, epoch=1))
            self.host.units.run(lambda unit: self._begin(unit, name))
            return True
        if job.state == JOB_STATE_RUNNING:
            return self.host.units.run(lambda unit: self._pay(unit, name))
        return False

    def _begin(self, unit: Unit, name: str) -> None:
        job = self.jobs.lock(unit, name)
        if job.state == JOB_STATE_QUEUED:
            job.state, job.epoch = JOB_STATE_RUNNING, 1
            self.jobs.put(unit, job)
            unit.fact(name, EpochOpened(job=name, epoch=1, cause="first"))

    def _pay(self, unit: Unit, name: str) -> bool:
        job = self.jobs.lock(unit, name)
        if job.state != JOB_STATE_RUNNING:
            return False
        job.step += 1
        if job.step == job.spec.steps:
            job.state = JOB_STATE_DONE
        self.jobs.put(unit, job)
        unit.fact(name, RankLost(job=name, epoch=1, step=job.step, cause="payment"))
        return True

    def export(self, unit: Unit) -> list[CanonicalLine]:
        return [CanonicalLine(job.name, {"step": job.step}) for job in self.jobs.select(unit)]


def build_scheduler(host: Host) -> Service:
    toy = SchedulerToy(host)
    return Service(
        name="scheduler",
        resources=[toy.jobs, toy.nodes],
        tables=[toy.inputs],
        serves=[Served(SCHEDULER.services_by_name["SchedulerService"], toy)],
        consumes=[Consumed(Ingest, toy.on_ingest)],
        facts=[EpochOpened, RankLost],
        loops=[toy.reconciler],
        export=toy.export,
    )


class CommitterToy:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.lines = Resource(host.metadata, "lines", Line)
        self.checkpoints = Resource(host.metadata, "checkpoints", Checkpoint)
        self.paid = declare(
            "paid", host.metadata, Column("job", NAME, primary_key=True), Column("steps", BigInteger, nullable=False)
        )

    def OpenEpoch(self, request: OpenEpochRequest, call: Call) -> OpenEpochResponse:
        name = f"lines/{request.job.removeprefix('jobs/')}/0"

        def record(unit: Unit) -> Line:
            return self.lines.create(unit, Line(name=name, job=request.job, epoch=request.epoch))

        return OpenEpochResponse(line=self.host.units.run(record).line)

    def on_opened(self, unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            unit.tx.execute(insert(self.paid).values(job=f"{event.subject} epochs", steps=event.message.epoch))

    def on_paid(self, unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            column = self.paid.c.steps
            more = update(self.paid).where(self.paid.c.job == event.subject).values(steps=column + event.message.step)
            if unit.tx.execute(more).rowcount == 0:
                unit.tx.execute(insert(self.paid).values(job=event.subject, steps=event.message.step))
            line = self.lines.lock(unit, f"lines/{event.subject.removeprefix('jobs/')}/0")
            line.head = max(line.head, event.message.step)
            self.lines.put(unit, line)
            name = f"checkpoints/{event.subject.removeprefix('jobs/')}/0/{event.message.step}"
            self.checkpoints.create(unit, Checkpoint(name=name, state=CHECKPOINT_STATE_COMMITTED))
            if unit.wrote(name):
                unit.fact(name, DivergenceDetected(checkpoint=name))


def build_committer(host: Host) -> Service:
    toy = CommitterToy(host)
    return Service(
        name="committer",
        resources=[toy.lines, toy.checkpoints],
        tables=[toy.paid],
        serves=[Served(COMMITTER.services_by_name["CommitterService"], toy)],
        consumes=[Consumed(EpochOpened, toy.on_opened), Consumed(RankLost, toy.on_paid)],
        facts=[DivergenceDetected],
    )


def paid(unit: Unit) -> dict[str, int]:
    rows = unit.tx.execute(unit.tables.outbox.metadata.tables["paid"].select()).all()
    return {row.job: int(row.steps) for row in rows}


class AgentToy:
    """Registers its node under a new incarnation each life, then asks for its revision."""

    name, interval = "agent", 5.0

    def __init__(self, host: AgentHost) -> None:
        self.host = host
        lives = host.folder / "lives"
        self.life = len(lives.read_text()) + 1 if lives.exists() else 1
        lives.write_text("x" * self.life)
        self.scheduler = SchedulerServiceStub(host.channel("scheduler"))
        self.registered = False

    def step(self) -> bool:
        node = f"nodes/{self.host.name}"
        if not self.registered:
            self.scheduler.RegisterNode(RegisterNodeRequest(name=node, slots=4, incarnation=str(self.life)))
            self.registered = True
            return True
        self.scheduler.Heartbeat(HeartbeatRequest(name=node, incarnation=str(self.life)))
        return False


def build_agent(host: AgentHost) -> list[Loop]:
    return [AgentToy(host)]


BUILDS = {"ingest": build_ingest, "scheduler": build_scheduler, "committer": build_committer}
