"""Continuations: jobs that start from a state of an earlier job, with more steps or without some of its data.

Promises: the earlier job does not change, and the new one trains from its parameters, moments and place in the data.
A request that cannot work is refused before anything is recorded, and the message says what to do instead. A repeated
call has its effect once.
"""

from collections.abc import Iterator

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.names import check_name
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest, SkippedSteps
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    Continuation,
    ContinuedJob,
    ExtendJobRequest,
    Job,
    RewindJobRequest,
)
from tutti.model.schedule import steady_until
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.scheduler import gangs, jobs
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.tables import Tables
from tutti.scheduler.trainings import respecified

NO_SUCH_STEP, NOT_EXTENDABLE = "NO_SUCH_STEP", "NOT_EXTENDABLE"
MAX_CAUSE = 300
Request = ExtendJobRequest | RewindJobRequest


class Continuations:
    def __init__(self, host: Host, tables: Tables, epochs: Epochs) -> None:
        self._host, self._tables, self._epochs = host, tables, epochs
        self._committer = CommitterServiceStub(host.channel("committer"))

    def extend(self, request: ExtendJobRequest) -> ContinuedJob:
        """Raises InvalidField, NotFound, Refused, AlreadyExists."""
        required(request, "job", "name", "steps")
        if (made := self._made(request)) is not None:
            return made
        job = self._job(request)
        training = Training.from_json(job.spec.training)
        longer = extended(job.name, training, request.steps)
        until = min(steady_until(training.optimizer), steady_until(longer.optimizer))
        where = f"up to step {until}, after which the learning rate of {job.name} decays"
        again = f"start a training with train.steps={request.steps} and a smaller train.checkpoint_every"
        checkpoint = self._newest(job, until, where, otherwise=again)
        if checkpoint.suspect:
            back = checkpoint.step - 1
            raise Refused(
                NO_SUCH_STEP,
                f"{checkpoint.name}, the newest checkpoint {where}, is suspect: {checkpoint.suspect}; go back before "
                f"it with `tutti jobs rewind {_id(job.name)} --to {back}`, and extend the new job",
            )
        cause = request.cause or f"extended from {training.steps} to {request.steps} steps"
        return self._create(request, job, longer, checkpoint, Continuation(cause=cause))

    def rewind(self, request: RewindJobRequest) -> ContinuedJob:
        """Raises InvalidField, NotFound, Refused, AlreadyExists."""
        required(request, "job", "name", "to_step", "cause")
        if (made := self._made(request)) is not None:
            return made
        job = self._job(request)
        training = Training.from_json(job.spec.training)
        check_program(job.name, training)
        until = min(request.to_step, training.steps - 1)
        where = f"at or before step {until} of {job.name}"
        checkpoint = self._newest(job, until, where, otherwise="run the recipe again", sound=True)
        continuation = Continuation(cause=request.cause)
        if request.HasField("skip"):
            training = skipping(training, request.skip, checkpoint)
            continuation.skipped.CopyFrom(request.skip)
        return self._create(request, job, training, checkpoint, continuation)

    def _made(self, request: Request) -> ContinuedJob | None:
        """The answer to a request that was answered before. Raises AlreadyExists if that was another request."""

        def look(unit: Unit) -> Job | None:
            found = self._tables.jobs.find(unit, check_name("jobs", request.name))
            return None if found is None else self._tables.jobs.create(unit, found, request)

        found = self._host.units.run(look)
        return None if found is None else _answer(found)

    def _job(self, request: Request) -> Job:
        if len(request.cause) > MAX_CAUSE:
            expected = f"at most {MAX_CAUSE}: say in short why, the job keeps it"
            raise InvalidField("cause", seen=f"{len(request.cause)} characters", expected=expected)
        check_name("jobs", request.job, field="job")
        return self._host.units.run(lambda unit: self._tables.jobs.get(unit, request.job))

    def _newest(self, job: Job, until: int, where: str, *, otherwise: str, sound: bool = False) -> Checkpoint:
        """The newest checkpoint up to a step that is there and that a passed audit covers; `sound`: not suspect either.

        Raises Refused with `otherwise`, what to do instead.
        """
        passed = []
        for each in self._ancestors(job):
            there = each.state == CHECKPOINT_STATE_COMMITTED and _is_covered(job, each)
            if each.step <= until and there and not (sound and each.suspect):
                return each
            passed.append(each)
        steps = [each.step for each in passed if each.state == CHECKPOINT_STATE_COMMITTED and not each.suspect]
        has = f"it has those of steps {', '.join(map(str, reversed(steps)))}" if steps else "it has none"
        raise Refused(NO_SUCH_STEP, f"there is no sound checkpoint {where}; {has}; {otherwise}")

    def _ancestors(self, job: Job) -> Iterator[Checkpoint]:
        """The checkpoints that the newest state of a job descends from, the newest first, of earlier jobs too."""
        name = job.resume_checkpoint or job.continues.checkpoint
        try:
            line = self._committer.GetLine(GetRequest(name=f"lines/{_id(job.name)}/{job.line}"))
            if line.head > line.from_step:
                name = f"checkpoints/{_id(job.name)}/{job.line}/{line.head}"
        except NotFound:
            pass  # the job has opened no epoch yet
        while name:
            found: Checkpoint = self._committer.GetCheckpoint(GetRequest(name=name))
            yield found
            name = found.parent

    def _create(
        self, request: Request, job: Job, training: Training, checkpoint: Checkpoint, continuation: Continuation
    ) -> ContinuedJob:
        continuation.job, continuation.checkpoint, continuation.step = job.name, checkpoint.name, checkpoint.step
        spec = respecified(job.spec, training)
        spec.data_parallel = checkpoint.shape.data_parallel
        gangs.check_size(request.name, spec)

        def create(unit: Unit) -> Job:
            made = jobs.created(request.name, spec, unit.now)
            made.continues.CopyFrom(continuation)
            if request.validate_only:
                return made
            made = self._tables.jobs.create(unit, made, request)
            self._epochs.wake(unit, made.name)
            return made

        return _answer(self._host.units.run(create))


def check_program(job: str, training: Training) -> None:
    """Raises Refused for a program whose data are of its own job."""
    if training.updates:
        raise Refused(
            NOT_EXTENDABLE,
            f"{job} trains with {training.program}, on rollouts that it makes; start a stage of the kind "
            f"{training.program} with one of its checkpoints as `initial`",
        )


def extended(job: str, training: Training, steps: int) -> Training:
    """The training with this number of steps. Raises Refused, InvalidField."""
    check_program(job, training)
    if training.optimizer.schedule != "wsd":
        raise Refused(
            NOT_EXTENDABLE,
            f"{job} has the schedule {training.optimizer.schedule}, whose learning rates depend on the number of steps "
            "from the end of the warmup on; train with train.schedule=wsd, or start a training with its last "
            "checkpoint as `initial`",
        )
    if steps <= training.steps:
        expected = f"more than {training.steps}, which {job} has; `tutti jobs rewind` goes back"
        raise InvalidField("steps", seen=steps, expected=expected)
    try:
        return training.extended(steps)
    except SpecError as error:
        raise InvalidField("steps", seen=steps, expected=str(error)) from error


def skipping(training: Training, skip: SkippedSteps, checkpoint: Checkpoint) -> Training:
    """The training without the data of these steps, which its checkpoint must not have read. Raises InvalidField."""
    if not checkpoint.step < skip.first <= training.steps:
        expected = f"{checkpoint.step + 1} … {training.steps}: {checkpoint.name} has read what is before"
        raise InvalidField("skip.first", seen=skip.first, expected=expected)
    try:
        return training.without(skip.first, skip.last)
    except SpecError as error:
        raise InvalidField("skip", seen=f"{skip.first} to {skip.last}", expected=str(error)) from error


def _is_covered(job: Job, checkpoint: Checkpoint) -> bool:
    """True if a passed audit covers a checkpoint; those of earlier jobs were covered when this one was created."""
    return checkpoint.job != job.name or job.state == JOB_STATE_DONE or checkpoint.step <= job.covered_step


def _answer(job: Job) -> ContinuedJob:
    continued = job.continues
    return ContinuedJob(job=job.name, line=job.line, from_step=continued.step, checkpoint=continued.checkpoint)


def _id(job: str) -> str:
    return job.removeprefix("jobs/")
