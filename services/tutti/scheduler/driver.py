"""The driver of jobs: brings one job a step nearer to its end, whatever was missed.

Promises: it reads the recorded state, decides, calls the committer outside any transaction, and records the answer only
where the state is still the one that it asked for; so it may be stopped and started anywhere.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Problem, Refused, StaleEpoch
from tutti.chassis.service import Host
from tutti.chassis.tables import micros
from tutti.chassis.unit import Unit
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    OpenEpochRequest,
    OpenEpochResponse,
)
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_OPENING,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    NODE_STATE_DRAINING,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    TRANSITION_STATE_RECORDED,
    Job,
    Node,
    Transition,
)
from tutti.scheduler import gangs, jobs, queue, topology
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.tables import Attempt, RankRow, Tables

log = logging.getLogger(__name__)
POLICY = "policy"


@dataclass(frozen=True)
class Rest:
    """Nothing more to do until woken, or for so many seconds."""

    seconds: float | None = None


@dataclass(frozen=True)
class Again:
    """The state moved on: look again at once."""


@dataclass(frozen=True)
class Open:
    """Ask the committer to open the epoch."""

    request: OpenEpochRequest
    steps: int


@dataclass(frozen=True)
class Look:
    """Ask the committer what is committed: `last` is the final checkpoint when only that is missing."""

    job: str
    line: int
    decided_step: int
    last: int | None


@dataclass(frozen=True)
class Finish:
    """The last checkpoint is committed: ask for it, and end the job with it."""

    job: str
    checkpoint: str


Next = Rest | Again | Open | Look | Finish


class Driver:
    def __init__(self, host: Host, tables: Tables, epochs: Epochs, settings: SchedulerSettings) -> None:
        self._host, self._tables, self._epochs, self._settings = host, tables, epochs, settings
        self._committer = CommitterServiceStub(host.channel("committer"))

    def open(self, unit: Unit) -> list[str]:
        """The jobs that have not ended."""
        return [job.name for job in self._tables.jobs.select(unit, state=[int(state) for state in jobs.OPEN])]

    def advance(self, name: str) -> bool | float | None:
        """One decision, and the call that it needs. Raises Problem when the committer cannot be reached."""
        match self._host.units.run(lambda unit: self._decide(unit, name)):
            case Rest(seconds):
                return seconds
            case Again():
                return True
            case Open() as opening:
                return self._open(opening)
            case Look() as look:
                return self._look(look)
            case Finish() as finish:
                self._finish(finish)
                return None

    def _decide(self, unit: Unit, name: str) -> Next:
        try:
            job = self._tables.jobs.lock(unit, name)
        except NotFound:
            return Rest()
        if job.state in jobs.ENDED:
            return Rest()
        attempt = self._tables.attempt(unit, job)
        if job.decided_step >= job.spec.steps:
            return Finish(job.name, f"checkpoints/{_id(job.name)}/{job.line}/{job.decided_step}")
        if job.state == JOB_STATE_QUEUED:
            return self._queued(unit, job)
        if job.state == JOB_STATE_OPENING:
            return self._opening(unit, job)
        if attempt is None:
            return Rest()
        if job.state == JOB_STATE_STARTING:
            return self._starting(unit, job, attempt)
        if job.state == JOB_STATE_RUNNING:
            return self._running(unit, job, attempt)
        if job.state == JOB_STATE_STOPPING:
            return self._stopping(unit, job, attempt)
        return Rest()

    def _queued(self, unit: Unit, job: Job) -> Next:
        nodes = self._tables.nodes.select(unit)
        ranks = topology.wanted(job)
        waiting = [
            queue.Waiting(each.name, each.started_at.ToMicroseconds(), topology.wanted(each))
            for each in self._tables.jobs.select(unit, state=int(JOB_STATE_QUEUED))
        ]
        own = next(each for each in waiting if each.job == job.name)
        first = queue.ahead_of(own, waiting, gangs.capacity(nodes))
        if first is not None:
            self._tables.jobs.put(unit, jobs.waiting(job, f"pending because {first.job} was there first"))
            return Rest()
        found = gangs.place(ranks, [gangs.room_of(node) for node in nodes], job.placement)
        if not isinstance(found, gangs.Short):
            self._tables.jobs.put(unit, jobs.opening(job, topology.shape_of(ranks)))
            self._epochs.wake_queue(unit)
            return Again()
        if self._shrink(unit, job, nodes):
            return Again()
        reason = queue.pending_because(
            ranks=ranks,
            missing=found.missing,
            lost=[node.name for node in nodes if node.state == NODE_STATE_LOST],
            draining=[node.name for node in nodes if node.state == NODE_STATE_DRAINING],
            kernels=len({node.kernel for node in nodes if node.state == NODE_STATE_READY}),
        )
        self._tables.jobs.put(unit, jobs.waiting(job, reason))
        return Rest()

    def _shrink(self, unit: Unit, job: Job, nodes: Sequence[Node]) -> bool:
        """By the recipe's policy: fewer ranks when nodes are lost and what is left could never hold the gang."""
        lost = [node.name for node in nodes if node.state == NODE_STATE_LOST]
        slots, ranks = gangs.capacity(nodes), topology.wanted(job)
        if not (job.spec.shrink and lost and 0 < slots < ranks):
            return False
        fewer = topology.fastest(job.spec.leaves, slots)
        cause = f"{', '.join(lost)} lost, {slots} of {ranks} slots left"
        self.record(unit, job, fewer, actor=POLICY, cause=cause)
        return True

    def record(self, unit: Unit, job: Job, ranks: int, *, actor: str, cause: str) -> Transition:
        """Record a change of shape for the job's next epoch; one that still waited is withdrawn."""
        return self._tables.transitions.create(unit, self.transition(unit, job, ranks, actor=actor, cause=cause))

    def transition(self, unit: Unit, job: Job, ranks: int, *, actor: str, cause: str) -> Transition:
        """The next transition of a job, and the job told of it; the caller creates it."""
        known = self._tables.transitions.select(unit, job=job.name)
        for each in known:
            if each.state == TRANSITION_STATE_RECORDED:
                self._epochs.withdraw(unit, each)
        after = jobs.reshaped(job, ranks, f"{actor} asked for {ranks} data-parallel ranks ({cause})")
        self._tables.jobs.put(unit, after)
        self._epochs.wake(unit, job.name)
        number = max((topology.number_of(each) for each in known), default=0) + 1
        before = job.shape if job.shape.data_parallel else topology.shape_of(job.spec.data_parallel)
        return Transition(
            name=topology.transition_name(job.name, number),
            job=job.name,
            from_shape=before,
            to_shape=topology.shape_of(ranks),
            # Until it is applied: the newest checkpoint when it was recorded, so that the next one can be seen.
            at_step=job.decided_step,
            actor=actor,
            cause=cause,
            state=TRANSITION_STATE_RECORDED,
        )

    def _opening(self, unit: Unit, job: Job) -> Next:
        seats = self._seats(unit, job)
        if isinstance(seats, gangs.Short):
            self._tables.jobs.put(unit, jobs.requeued(job, "slots were taken before the epoch was opened"))
            return Again()
        request = OpenEpochRequest(
            job=job.name,
            epoch=job.epoch,
            shape=job.shape,
            transition=topology.allows(self._tables.transitions.select(unit, job=job.name), job.shape),
            training=job.spec.training,
            training_digest=job.spec.training_digest,
            dataset_digest=job.spec.dataset_digest,
            nodes=len({seat.node for seat in seats}),
        )
        return Open(request, job.spec.steps)

    def _seats(self, unit: Unit, job: Job) -> tuple[gangs.Seat, ...] | gangs.Short:
        rooms = [gangs.room_of(node) for node in self._tables.nodes.select(unit)]
        return gangs.place(job.shape.data_parallel, rooms, job.placement)

    def _open(self, opening: Open) -> bool | float | None:
        request = opening.request
        try:
            response = self._committer.OpenEpoch(request)
            # A job that lost its ranks after its last checkpoint has nothing left to do but to learn of it.
            last = self._checkpoint(response.checkpoint) if response.step >= opening.steps else None
        except (StaleEpoch, AlreadyExists, Refused, InvalidField, NotFound) as problem:
            refusal = problem
            self._host.units.run(lambda unit: self._refused(unit, request, refusal))
            return True
        except Problem as problem:
            reason = f"opening epoch {request.epoch}: waits for the committer ({problem.message})"
            self._host.units.run(lambda unit: self._waits(unit, request, reason))
            raise
        if last is not None:
            final = of_checkpoint(last)
            self._host.units.run(lambda unit: self.observe(unit, request.job, final))
        else:
            self._host.units.run(lambda unit: self._opened(unit, request, response))
        return True

    def _checkpoint(self, name: str) -> Checkpoint:
        found: Checkpoint = self._committer.GetCheckpoint(GetRequest(name=name))
        return found

    def _finish(self, finish: Finish) -> None:
        last = of_checkpoint(self._checkpoint(finish.checkpoint))

        def end(unit: Unit) -> None:
            job = self._tables.jobs.lock(unit, finish.job)
            if job.state in jobs.ENDED:
                return
            attempt = self._tables.attempt(unit, job)
            crossed = jobs.progressed(job, attempt.crossed) if attempt else job
            self._epochs.end(unit, jobs.done(jobs.committed(crossed, last), unit.now))

        self._host.units.run(end)

    def _opened(self, unit: Unit, request: OpenEpochRequest, response: OpenEpochResponse) -> None:
        job = self._still(unit, request)
        if job is None:
            return
        seats = self._seats(unit, job)
        # The committer was told how many nodes write; another number needs another epoch.
        if isinstance(seats, gangs.Short) or len({seat.node for seat in seats}) != request.nodes:
            self._tables.jobs.put(unit, jobs.requeued(job, "slots were taken while the epoch was opened"))
            return
        resume = jobs.ResumePoint(
            checkpoint=response.checkpoint,
            manifest_key=response.manifest_key,
            state_digest=response.state_digest,
            line=response.line,
            step=response.step,
        )
        self._epochs.begin(unit, job, resume, seats, request.transition)

    def _refused(self, unit: Unit, request: OpenEpochRequest, problem: Problem) -> None:
        job = self._still(unit, request)
        if job is None:
            return
        if isinstance(problem, StaleEpoch | AlreadyExists):
            # This epoch, or a higher one, was opened on other terms (nodes or transition changed since, or our database
            # was restored): the next one is free.
            self._tables.jobs.put(unit, jobs.requeued(job, problem.message))
            return
        reason = f"the committer refused epoch {job.epoch}: {problem.message}"
        self._epochs.end(unit, jobs.failed(job, reason, unit.now))

    def _waits(self, unit: Unit, request: OpenEpochRequest, reason: str) -> None:
        job = self._still(unit, request)
        if job is not None:
            self._tables.jobs.put(unit, jobs.waiting(job, reason))

    def _still(self, unit: Unit, request: OpenEpochRequest) -> Job | None:
        """The job, if it still opens this epoch."""
        job = self._tables.jobs.lock(unit, request.job)
        return job if job.state == JOB_STATE_OPENING and job.epoch == request.epoch else None

    def _starting(self, unit: Unit, job: Job, attempt: Attempt) -> Next:
        pending = self._due(unit, job)
        if pending is not None:
            self._epochs.stop(unit, job, f"stopped for {pending.name}")
            return Again()
        left = self._left(unit, attempt.placed_at, self._settings.rendezvous_seconds)
        if left > 0:
            return Rest(left)
        missing = [row for row in self._tables.gang(unit, job) if not row.ready]
        self._epochs.fail(
            unit, job, f"{_named(missing)} not ready {self._settings.rendezvous_seconds:g} s after placing"
        )
        return Again()

    def _running(self, unit: Unit, job: Job, attempt: Attempt) -> Next:
        finished = all(row.finished for row in self._tables.gang(unit, job))
        if not finished:
            pending = self._due(unit, job)
            if pending is not None:
                self._epochs.stop(unit, job, f"stopped after checkpoint {job.decided_step} for {pending.name}")
                return Again()
            return Look(job.name, job.line, job.decided_step, None)
        if not attempt.finished_at:
            self._tables.note(unit, job, {"finished_at": micros(unit.now)})
            waits = f"waits for the checkpoint of step {job.spec.steps} to be committed"
            self._tables.jobs.put(unit, jobs.waiting(jobs.progressed(job, attempt.crossed), waits))
        elif self._left(unit, attempt.finished_at, self._settings.commit_seconds) <= 0:
            what = f"the checkpoint of step {job.spec.steps} was not committed in {self._settings.commit_seconds:g} s"
            self._epochs.fail(unit, job, what)
            return Again()
        return Look(job.name, job.line, job.decided_step, job.spec.steps)

    def _due(self, unit: Unit, job: Job) -> Transition | None:
        """The transition that this attempt should end for: nothing is lost, or a checkpoint was made since."""
        found = topology.newest(self._tables.transitions.select(unit, job=job.name))
        if found is None or found.to_shape.digest == job.shape.digest:
            return None
        return found if job.state == JOB_STATE_STARTING or job.decided_step > found.at_step else None

    def _stopping(self, unit: Unit, job: Job, attempt: Attempt) -> Next:
        holders = [node.name for node in self._epochs.holders(unit, job)]
        left = self._left(unit, attempt.stopped_at, self._settings.release_seconds)
        if holders and left > 0:
            waits = f"{job.history[-1] if job.history else job.reason}; waits for {', '.join(holders)} to release it"
            self._tables.jobs.put(unit, jobs.waiting(job, waits))
            return Rest(left)
        # Whoever has not released keeps its slots; the epoch is fenced at the committer, so the job goes on elsewhere.
        self._tables.jobs.put(unit, jobs.requeued(job, "waits for its turn"))
        return Again()

    def _look(self, look: Look) -> bool | float | None:
        try:
            line = self._committer.GetLine(GetRequest(name=f"lines/{_id(look.job)}/{look.line}"))
            if line.head > look.decided_step:
                name = f"checkpoints/{_id(look.job)}/{look.line}/{line.head}"
                found = self._checkpoint(name)
                if found.state == CHECKPOINT_STATE_COMMITTED:
                    self._host.units.run(lambda unit: self.observe(unit, look.job, of_checkpoint(found)))
                    return True
        except NotFound:
            pass
        return self._settings.commit_look_seconds if look.last is not None else None

    def observe(self, unit: Unit, name: str, checkpoint: jobs.Committed) -> None:
        """A checkpoint of a job became visible; of ended or unknown jobs nothing changes."""
        found = self._tables.jobs.find(unit, name)
        if found is None or found.state in jobs.ENDED:
            return
        job = self._tables.jobs.lock(unit, name)
        if job.state in jobs.ENDED:
            return
        after = self._tables.jobs.put(unit, jobs.committed(job, checkpoint))
        if after.revision != job.revision:
            self._epochs.wake(unit, name)

    def _left(self, unit: Unit, since: int, seconds: float) -> float:
        return seconds - (micros(unit.now) - since) / 1_000_000


def of_checkpoint(checkpoint: Checkpoint) -> jobs.Committed:
    return jobs.Committed(
        line=checkpoint.line,
        step=checkpoint.step,
        model_digest=checkpoint.model_digest,
        state_digest=checkpoint.state_digest,
        bits_per_byte=checkpoint.bits_per_byte if checkpoint.HasField("bits_per_byte") else None,
        loss=checkpoint.loss,
    )


def _id(job: str) -> str:
    return job.removeprefix("jobs/")


def _named(rows: Sequence[RankRow]) -> str:
    return ", ".join(f"rank {row.rank} on {row.node}" for row in rows) or "the gang"
