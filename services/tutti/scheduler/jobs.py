"""The life of a job, as pure steps from one recorded value to the next.

Promises: a step changes only what it names; an ended job never changes again; an attempt is fruitless when it fails
without a checkpoint of its own that a passed audit covers; the history says what happened, newest last; no words,
however many, keep a job from being recorded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tutti.backbone.backoff import Backoff
from tutti.chassis.store.clipping import clipped
from tutti.contracts.common.v1 import Shape
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_OPENING,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    Job,
    JobSpec,
    JobState,
    NodeLosses,
    Pace,
    Straggler,
)
from tutti.scheduler.gangs import Seat, node_words
from tutti.scheduler.trainings import last_audit

HISTORY_LINES, HISTORY_LINE_BYTES = 32, 500
BACKOFF = Backoff(1.0, 60.0)
LOSSES_TO_AVOID, MOST_NODES, MOST_STRAGGLERS = 2, 16, 16
ENDED = (JOB_STATE_DONE, JOB_STATE_FAILED, JOB_STATE_CANCELLED)
OPEN = (JOB_STATE_QUEUED, JOB_STATE_OPENING, JOB_STATE_STARTING, JOB_STATE_RUNNING, JOB_STATE_STOPPING)
PLACED = (JOB_STATE_STARTING, JOB_STATE_RUNNING)


@dataclass(frozen=True)
class ResumePoint:
    """The committer's answer when it opened the epoch."""

    checkpoint: str
    manifest_key: str
    state_digest: str
    line: int
    step: int


@dataclass(frozen=True)
class Committed:
    """A committed checkpoint of the job."""

    line: int
    step: int
    model_digest: str
    state_digest: str
    bits_per_byte: float | None
    loss: float


@dataclass(frozen=True)
class Crossed:
    """The newest step that all ranks crossed, and how many up to it changed nothing."""

    step: int
    loss: float
    bits_per_byte: float | None
    skipped: int
    skipped_in_a_row: int


@dataclass(frozen=True)
class Ending:
    """The end of an attempt that the next one is likely to have too: equal keys are equal ends.

    A job ends after `most` of them in a row without a new checkpoint; `words` say what they are, and what to do.
    """

    key: str
    most: int
    words: str


def created(name: str, spec: JobSpec, now: datetime) -> Job:
    job = Job(name=name, spec=spec, state=JOB_STATE_QUEUED, reason="waits for its turn")
    job.started_at.FromDatetime(now)
    return job


def waiting(job: Job, reason: str) -> Job:
    """The same, with another reason."""
    after = _copy(job)
    after.reason = clipped(reason)
    return after


def opening(job: Job, shape: Shape) -> Job:
    """The next epoch, before the committer is asked to open it."""
    after = _copy(job)
    after.state, after.epoch = JOB_STATE_OPENING, job.epoch + 1
    after.reason = f"opening epoch {after.epoch}"
    if job.shape.digest != shape.digest:
        after.shape.CopyFrom(shape)
        after.topology_version = job.topology_version + 1
    after.rendezvous = ""
    return after


def requeued(job: Job, reason: str) -> Job:
    """Back to the queue, keeping its place there."""
    after = _copy(job)
    after.state, after.reason = JOB_STATE_QUEUED, clipped(reason)
    return after


def starting(job: Job, resume: ResumePoint, seats: Sequence[Seat], *, moved: bool) -> Job:
    """Placed: the ranks of the epoch may be spawned. `moved`: some rank has another node or device than before."""
    after = _copy(job)
    after.state = JOB_STATE_STARTING
    after.reason = f"waits for {_ranks(len(seats))} to start"
    after.line, after.step, after.decided_step = resume.line, resume.step, resume.step
    after.resume_checkpoint, after.resume_manifest_key = resume.checkpoint, resume.manifest_key
    after.resume_digest = resume.state_digest
    after.skipped_in_a_row = 0
    after.ClearField("retry_at")
    del after.stragglers[:]
    after.ClearField("trusted_step")
    after.covered_step = min(job.covered_step, resume.step)
    del after.placement[:]
    after.placement_version = job.placement_version + moved
    nodes = node_words(sorted({seat.node for seat in seats}))
    start = f"from step {resume.step}" if resume.checkpoint else "from the start"
    _remember(after, f"epoch {job.epoch}: {_ranks(len(seats))} on {nodes} {start}")
    return after


def met(job: Job, address: str) -> Job:
    """The rendezvous is open."""
    after = _copy(job)
    after.rendezvous = address
    return after


def running(job: Job) -> Job:
    after = _copy(job)
    after.state, after.reason = JOB_STATE_RUNNING, ""
    return after


def progressed(job: Job, crossed: Crossed) -> Job:
    """A step was crossed; an older one changes nothing."""
    after = _copy(job)
    if crossed.step >= job.step:
        after.step, after.loss = crossed.step, crossed.loss
        after.skipped, after.skipped_in_a_row = crossed.skipped, crossed.skipped_in_a_row
        if crossed.bits_per_byte is not None:
            after.bits_per_byte = crossed.bits_per_byte
        after.covered_step = covered(after)
        if job.covered_step < after.covered_step < job.spec.steps:
            after.fruitless = 0
    return after


def paced(job: Job, pace: Pace, nodes: Mapping[int, str]) -> Job:
    """A window of steps ended; the history names a straggler once an attempt. `nodes`: of the stragglers."""
    slow = {each.rank: each.ratio for each in pace.stragglers}
    before = {each.rank: each for each in job.stragglers}
    if slow.keys() == {rank for rank, each in before.items() if each.ratio}:
        return job
    after = _copy(job)
    del after.stragglers[:]
    known = sorted(before.keys() - slow.keys())[: max(MOST_STRAGGLERS - len(slow), 0)]
    for rank in sorted({*slow, *known}):
        node, ratio = nodes.get(rank) or before[rank].node, slow.get(rank, 0.0)
        after.stragglers.append(Straggler(rank=rank, node=node, ratio=ratio))
        if rank not in before:
            words = f"rank {rank} on {node} is slow: a leaf takes it {ratio:.1f} times as long as the other ranks"
            _remember(after, f"epoch {job.epoch}: {words}")
    return after


def committed(job: Job, checkpoint: Committed) -> Job:
    """A checkpoint became visible; an older one changes nothing."""
    after = _copy(job)
    if (checkpoint.line, checkpoint.step) < (job.line, job.decided_step):
        return after
    after.line, after.decided_step = checkpoint.line, checkpoint.step
    after.covered_step = covered(after)
    # The last one gives nothing back: it ends the job, or it is found damaged, and that must not go on for ever.
    if job.decided_step < after.covered_step < job.spec.steps:
        after.fruitless = 0
    after.model_digest, after.state_digest = checkpoint.model_digest, checkpoint.state_digest
    if checkpoint.bits_per_byte is not None:
        after.bits_per_byte = checkpoint.bits_per_byte
    if checkpoint.step >= job.step:
        # A checkpoint has the loss of its step alone, and a job the mean of the newest steps, if any were reported.
        after.step, after.loss = checkpoint.step, job.loss or checkpoint.loss
    return after


def covered(job: Job) -> int:
    """The newest committed step that a passed audit covers; without audits, the newest."""
    audited = last_audit(job, max(job.step, job.decided_step))
    newest = audited is None or job.decided_step <= audited
    return max(job.covered_step, job.decided_step) if newest else job.covered_step


def doubted(job: Job, trusted_step: int) -> Job:
    """States after this step may be wrong: the next attempt resumes before them."""
    after = _copy(job)
    after.trusted_step = min(trusted_step, job.trusted_step) if job.HasField("trusted_step") else trusted_step
    after.covered_step = min(job.covered_step, after.trusted_step)
    if job.decided_step >= job.spec.steps:  # its last checkpoint does not end it any more
        after.decided_step = min(job.decided_step, after.trusted_step)
    return after


def uncommitted(job: Job, step: int) -> Job:
    """The job after its last decision was found damaged: it is decided up to `step` at most, where this attempt
    began.
    """
    after = _copy(job)
    after.decided_step, after.covered_step = step, min(job.covered_step, step)
    after.model_digest, after.state_digest = "", job.resume_digest if step else ""
    return after


def lost(job: Job, what: str, *, resume_step: int, attempts: int, now: datetime, ending: Ending | None = None) -> Job:
    """The attempt failed: stop it, and go on or give up. `resume_step` is where this attempt began.

    With an `ending` that the attempts before had too, it gives up earlier.
    """
    after = _copy(job)
    after.state, after.reason = JOB_STATE_STOPPING, clipped(what)
    after.fruitless = 0 if covered(job) > resume_step else job.fruitless + 1
    after.retry_at.FromDatetime(now + timedelta(seconds=BACKOFF.longest(after.fruitless)))
    after.ending = ending.key if ending and after.fruitless else ""
    after.alike = 0 if not after.ending else job.alike + 1 if after.ending == job.ending else 1
    _remember(after, f"epoch {job.epoch}: {what}")
    if ending is not None and after.alike >= min(ending.most, attempts):
        times = "the attempt ended" if after.alike == 1 else f"{after.alike} attempts in a row ended in the same way"
        return failed(after, f"{times}, {ending.words}; the last: {what}", now)
    if after.fruitless >= attempts:
        return failed(
            after,
            f"{after.fruitless} attempts without a new checkpoint, the last: {what}; "
            f"the history has the others; fix the cause and run the recipe again",
            now,
        )
    return after


def blamed(job: Job, node: str) -> Job:
    """The current attempt ended because of this node; counted once an attempt. Only the newest nodes are kept."""
    before = next((each for each in job.losses if each.node == node), NodeLosses(node=node))
    if before.losses and before.epoch == job.epoch:
        return job
    after = _copy(job)
    others = [each for each in job.losses if each.node != node]
    del after.losses[:]
    after.losses.extend([*others, NodeLosses(node=node, losses=before.losses + 1, epoch=job.epoch)][-MOST_NODES:])
    return after


def avoided(job: Job) -> list[str]:
    """The nodes that the job uses only if it does not fit without them."""
    return sorted(each.node for each in job.losses if each.losses >= LOSSES_TO_AVOID)


def reshaped(job: Job, ranks: int, line: str) -> Job:
    """The next epoch has so many ranks."""
    after = _copy(job)
    after.wanted_data_parallel = ranks
    _remember(after, line)
    return after


def stopping(job: Job, why: str) -> Job:
    """The attempt is ended on purpose; that counts as no failure."""
    after = _copy(job)
    after.state, after.reason = JOB_STATE_STOPPING, clipped(why)
    _remember(after, f"epoch {job.epoch}: {why}")
    return after


def also(job: Job, line: str) -> Job:
    """One more line of history."""
    after = _copy(job)
    _remember(after, f"epoch {job.epoch}: {line}")
    return after


def done(job: Job, now: datetime) -> Job:
    after = _end(job, JOB_STATE_DONE, "", now)
    after.fruitless = 0
    _remember(after, f"epoch {job.epoch}: done at step {job.decided_step}")
    return after


def failed(job: Job, reason: str, now: datetime) -> Job:
    after = _end(job, JOB_STATE_FAILED, reason, now)
    _remember(after, f"epoch {job.epoch}: failed")
    return after


def cancelled(job: Job, now: datetime) -> Job:
    after = _end(job, JOB_STATE_CANCELLED, "cancelled on request", now)
    _remember(after, f"epoch {job.epoch}: cancelled on request")
    return after


def _end(job: Job, state: JobState.ValueType, reason: str, now: datetime) -> Job:
    after = _copy(job)
    after.state, after.reason = state, clipped(reason)
    after.ended_at.FromDatetime(now)
    return after


def _copy(job: Job) -> Job:
    if job.state in ENDED:
        raise ValueError(f"{job.name} has ended; nothing changes it")
    after = Job()
    after.CopyFrom(job)
    return after


def _remember(job: Job, line: str) -> None:
    job.history.append(clipped(line, HISTORY_LINE_BYTES))
    del job.history[:-HISTORY_LINES]


def _ranks(number: int) -> str:
    return f"{number} rank" if number == 1 else f"{number} ranks"
