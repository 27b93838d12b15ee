"""The driver of jobs: reconciles one job, that is, makes its next state transition.

Promises: it reads the recorded state, decides, calls the committer outside any transaction, and records the answer only
where the state is still the one that it asked for; so it may be stopped and started anywhere.
"""

from collections.abc import Sequence

from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Problem, Refused, StaleEpoch
from tutti.chassis.events.event import Event
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import RETRYING, Trouble
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_DECIDED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    CheckpointState,
    DivergenceDetected,
    Line,
    OpenEpochRequest,
    OpenEpochResponse,
)
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import JOB_STATE_OPENING, JOB_STATE_RUNNING, Job
from tutti.scheduler import gangs, jobs
from tutti.scheduler.decisions import Again, Decisions, Finish, Look, Next, Open, Rest
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.tables import Tables

LINE = "the committer: "
"""Before what the line of a job says of itself."""


class Driver:
    def __init__(
        self,
        host: Host,
        tables: Tables,
        epochs: Epochs,
        decisions: Decisions,
        settings: SchedulerSettings,
    ) -> None:
        self._host, self._tables, self._epochs = host, tables, epochs
        self._decisions, self._settings = decisions, settings
        self._committer = CommitterServiceStub(host.channel("committer"))

    def open(self, unit: Unit) -> list[str]:
        """The jobs that have not ended."""
        return [job.name for job in self._tables.jobs.select(unit, state=[int(state) for state in jobs.OPEN])]

    def tell(self, unit: Unit, name: str, trouble: Trouble | None) -> None:
        """Record why a job is not advanced; a final trouble fails it."""
        job = self._lock_open(unit, name)
        if job is None:
            return
        if trouble is None:
            if job.reason.startswith(RETRYING):
                self._tables.jobs.put(unit, jobs.waiting(job, ""))
        elif trouble.final:
            self._epochs.end(unit, jobs.failed(job, trouble.reason, unit.now))
        else:
            self._tables.jobs.put(unit, jobs.waiting(job, trouble.reason))

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
                return self._finish(finish)

    def _decide(self, unit: Unit, name: str) -> Next:
        """Return the next action; one that opens an epoch has for the committer the node of each rank, and the
        checkpoint of another job that the job starts from.
        """
        decided = self._decisions.decide(unit, name)
        if isinstance(decided, Open):
            job = self._tables.jobs.get(unit, name)
            seats = self._decisions.seats(unit, job)
            assert not isinstance(seats, gangs.Short)
            decided.request.placement.extend(seat.node for seat in seats)
            decided.request.base = job.continues.checkpoint
            decided.request.cause = decided.request.cause or job.continues.cause
        return decided

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
        if last is not None:
            final = of_checkpoint(last)
            self._host.units.run(lambda unit: self.observe(unit, request.job, final))
        else:
            self._host.units.run(lambda unit: self._opened(unit, request, response))
        return True

    def _checkpoint(self, name: str) -> Checkpoint:
        found: Checkpoint = self._committer.GetCheckpoint(GetRequest(name=name))
        return found

    def _finish(self, finish: Finish) -> bool | float | None:
        last = self._checkpoint(finish.checkpoint)
        if last.state == CHECKPOINT_STATE_DECIDED:
            return self._settings.commit_look_seconds
        whole = last.state == CHECKPOINT_STATE_COMMITTED
        self._host.units.run(lambda unit: self._end(unit, finish, last) if whole else self._reopen(unit, finish, last))
        return None if whole else True

    def _end(self, unit: Unit, finish: Finish, last: Checkpoint) -> None:
        job = self._tables.jobs.lock(unit, finish.job)
        if job.state in jobs.ENDED:
            return
        job = self._decisions.went_on(unit, job)  # its ranks came to the end, and may have no word left to give
        attempt = self._tables.attempt(unit, job)
        crossed = jobs.progressed(job, attempt.crossed) if attempt else job
        self._epochs.end(unit, jobs.done(jobs.committed(crossed, of_checkpoint(last)), unit.now))

    def _reopen(self, unit: Unit, finish: Finish, last: Checkpoint) -> None:
        """The last checkpoint is no good: the next epoch makes it again from the one before."""
        job = self._tables.jobs.lock(unit, finish.job)
        if job.state in jobs.ENDED or (job.line, job.decided_step) != (last.line, last.step):
            return
        attempt = self._tables.attempt(unit, job)
        before = jobs.uncommitted(job, attempt.resume_step if attempt and attempt.resume_step < last.step else 0)
        reason = f": {last.reason}" if last.reason else ""
        what = f"the last checkpoint, {last.name}, is {_word(last)}{reason}"
        if job.state in jobs.PLACED:
            self._epochs.fail(unit, before, what)
        else:
            self._tables.jobs.put(unit, jobs.also(before, what))

    def _opened(self, unit: Unit, request: OpenEpochRequest, response: OpenEpochResponse) -> None:
        job = self._still(unit, request)
        if job is None:
            return
        seats = self._decisions.seats(unit, job)
        # The committer was told which node writes which rank; another placement needs another epoch.
        if isinstance(seats, gangs.Short) or [seat.node for seat in seats] != list(request.placement):
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

    def _still(self, unit: Unit, request: OpenEpochRequest) -> Job | None:
        """The job, if it still opens this epoch."""
        job = self._tables.jobs.lock(unit, request.job)
        return job if job.state == JOB_STATE_OPENING and job.epoch == request.epoch else None

    def _look(self, look: Look) -> bool | float | None:
        try:
            line = self._committer.GetLine(GetRequest(name=f"lines/{_id(look.job)}/{look.line}"))
            if line.epoch == look.epoch and (line.reason or look.reason.startswith(LINE)):
                self._host.units.run(lambda unit: self._repeat(unit, look, line.reason))
            if line.head > look.decided_step:
                name = f"checkpoints/{_id(look.job)}/{look.line}/{line.head}"
                found = self._checkpoint(name)
                if found.state == CHECKPOINT_STATE_COMMITTED and not found.suspect:
                    self._host.units.run(lambda unit: self.observe(unit, look.job, of_checkpoint(found)))
                    return True
            hopeless = self._hopeless(look, line)
        except NotFound:
            hopeless = ""
        if hopeless:
            self._host.units.run(lambda unit: self._fail(unit, look, hopeless))
            return True
        return self._settings.commit_look_seconds if look.last is not None else None

    def _hopeless(self, look: Look, line: Line) -> str:
        """The reason why this epoch will not make a checkpoint, or "". Raises NotFound when the last was not decided
        yet.
        """
        if line.epoch == look.epoch and line.stuck:
            return f"{LINE}{line.reason}"
        if look.last is None:
            return ""
        if line.epoch == look.epoch and line.given_up >= look.last:
            return f"the checkpoint of the last step, {look.last}, was given up: {line.given_up_because}"
        last = self._checkpoint(f"checkpoints/{_id(look.job)}/{look.line}/{look.last}")
        if last.state == CHECKPOINT_STATE_QUARANTINED:
            return f"the last checkpoint, {last.name}, is quarantined: {last.reason}"
        return ""

    def _repeat(self, unit: Unit, look: Look, reason: str) -> None:
        """Say at the job what its line says: why nothing is committed, or that it goes on."""
        job = self._tables.jobs.lock(unit, look.job)
        if job.state == JOB_STATE_RUNNING and job.epoch == look.epoch:
            self._tables.jobs.put(unit, jobs.waiting(job, f"{LINE}{reason}" if reason else ""))

    def _fail(self, unit: Unit, look: Look, what: str) -> None:
        job = self._tables.jobs.lock(unit, look.job)
        if job.state == JOB_STATE_RUNNING and job.epoch == look.epoch:
            self._epochs.fail(unit, job, what)

    def _lock_open(self, unit: Unit, name: str) -> Job | None:
        """Lock a job that has not ended; None, without a lock where possible, for an ended or unknown one."""
        found = self._tables.jobs.find(unit, name)
        if found is None or found.state in jobs.ENDED:
            return None
        job = self._tables.jobs.lock(unit, name)
        return None if job.state in jobs.ENDED else job

    def on_checkpoint(self, unit: Unit, events: Sequence[Event]) -> None:
        """Consume checkpoints. An older one changes nothing, so order and repetition do not matter."""
        for event in events:
            checkpoint: Checkpoint = event.message
            if checkpoint.state == CHECKPOINT_STATE_COMMITTED and not checkpoint.suspect:
                self.observe(unit, checkpoint.job, of_checkpoint(checkpoint))

    def on_divergence(self, unit: Unit, events: Sequence[Event]) -> None:
        """Consume divergences: a job that goes on from a disputed state resumes before it."""
        for event in events:
            fact: DivergenceDetected = event.message
            name, line, step = _place(fact.checkpoint)
            job = self._lock_open(unit, name)
            if job is None or fact.other_kernel or not _stands_on(job, line, step):
                continue
            what = f"epochs {fact.decided_epoch} and {fact.epoch} reached step {step} with different states"
            self._epochs.doubt(unit, job, step - 1, what)

    def observe(self, unit: Unit, name: str, checkpoint: jobs.Committed) -> None:
        """A checkpoint of a job became visible; of ended or unknown jobs nothing changes."""
        job = self._lock_open(unit, name)
        if job is None:
            return
        after = self._tables.jobs.put(unit, jobs.committed(job, checkpoint))
        if after.revision != job.revision:
            self._epochs.wake(unit, name)


def _place(checkpoint: str) -> tuple[str, int, int]:
    """The job of a checkpoint, its line and its step."""
    _, job, line, step = checkpoint.split("/")
    return f"jobs/{job}", int(line), int(step)


def _stands_on(job: Job, line: int, step: int) -> bool:
    """True if the states of a job descend from a step of this line."""
    if job.line == line or not job.resume_checkpoint:
        return job.line == line
    _, begun, first = _place(job.resume_checkpoint)
    return begun == line and first >= step


def of_checkpoint(checkpoint: Checkpoint) -> jobs.Committed:
    return jobs.Committed(
        line=checkpoint.line,
        step=checkpoint.step,
        model_digest=checkpoint.model_digest,
        state_digest=checkpoint.state_digest,
        bits_per_byte=checkpoint.bits_per_byte if checkpoint.HasField("bits_per_byte") else None,
        loss=checkpoint.loss,
    )


def _word(checkpoint: Checkpoint) -> str:
    return CheckpointState.Name(checkpoint.state).removeprefix("CHECKPOINT_STATE_").lower()


def _id(job: str) -> str:
    return job.removeprefix("jobs/")
