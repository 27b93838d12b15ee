"""Stages whose work is a training job and whose result is its last checkpoint.

Promises: how the work of such a stage is seen, and what proves its result, is the same for all of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.manifest import CheckpointBody
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    CheckpointState,
    GetCurveRequest,
)
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING
from tutti.contracts.pipeline.v1 import RunFigures, RunTraining
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    Job,
)
from tutti.model.chunks import Layout
from tutti.model.training import Training
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import StageDef
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.sections import JobKeys
from tutti.pipeline.recipes.values import Result, WorkStatus
from tutti.pipeline.recipes.view import View
from tutti.records.figures import NEWEST_STEPS, newest_loss
from tutti.web import curves

STATES = {
    JOB_STATE_QUEUED: STATE_PENDING,
    JOB_STATE_DONE: STATE_DONE,
    JOB_STATE_FAILED: STATE_FAILED,
    JOB_STATE_CANCELLED: STATE_CANCELLED,
}


def leaf_rows(keys: Keys, rows: int | None, batch: int | None, microbatches: int) -> int:
    """Return the rows of a microbatch; 2 where neither they nor the batch are given. Raises InvalidField."""
    if batch is None:
        return rows or 2
    leaves = f"{keys.of('microbatches')} ({microbatches})"
    if rows is not None and batch != rows * microbatches:
        key = keys.of("rows")
        expected = f"{rows * microbatches}, {leaves} x {key}, since {key} ({rows}) and {keys.of('batch')} are both set"
        raise keys.refused("batch", seen=batch, expected=f"{expected}; or leave one of them out")
    found = batch // microbatches
    if batch % microbatches:
        expected = f"{leaves} times a whole number, such as {microbatches * max(1, found)}"
        raise keys.refused("batch", seen=batch, expected=f"{expected}; or leave it out and give {keys.of('rows')}")
    return found


def misfits(keys: Keys, train: Any) -> Iterator[InvalidField]:
    """The conflicts between the keys of a training."""
    if train.ranks > train.microbatches:
        expected = f"at most {keys.of('microbatches')} ({train.microbatches}): a rank computes at least one of them"
        yield keys.refused("ranks", seen=train.ranks, expected=expected)
    if train.steps is not None and train.warmup is not None and train.warmup > train.steps:
        yield keys.refused("warmup", seen=train.warmup, expected=f"at most {keys.of('steps')} ({train.steps})")
    if train.min_learning_rate > train.learning_rate:
        expected = f"at most {keys.of('learning_rate')} ({train.learning_rate:g})"
        yield keys.refused("min_learning_rate", seen=train.min_learning_rate, expected=expected)


class TrainingStage(StageDef):
    work = Job
    makes = Checkpoint

    def slots(self, view: View) -> int:
        ranks: int = view.section(JobKeys).ranks
        return ranks

    def seen(self, work: Any) -> WorkStatus:
        """The status of a job; the result of a done one lacks its manifest, which the committer has."""
        state = STATES.get(work.state, STATE_RUNNING)
        result = Result(work.name, "", work.state_digest)
        failed = state in (STATE_FAILED, STATE_CANCELLED)
        figures = RunFigures(training=progress_of(work)) if failed else RunFigures()
        return WorkStatus(work.name, state, work.reason, result if state == STATE_DONE else None, figures=figures)

    def settled(self, work: Any, host: Host) -> WorkStatus:
        seen = self.seen(work)
        if seen.result is None:
            return seen
        name = progress_of(work).checkpoint
        try:
            last = kind_of(Checkpoint).get(host.channel("committer"), name)
        except NotFound:
            return WorkStatus(
                work.name, STATE_FAILED, f"its last checkpoint {name} is not known to the committer", None
            )
        if last.state in (CHECKPOINT_STATE_QUARANTINED, CHECKPOINT_STATE_PRUNED):
            what = f"its last checkpoint {name} is {CheckpointState.Name(last.state)}: {last.reason}"
            return WorkStatus(work.name, STATE_FAILED, what, None)
        asked = GetCurveRequest(name=name, after_step=max(0, last.step - NEWEST_STEPS))
        curve = CommitterServiceStub(host.channel("committer")).GetCurve(asked)
        result = Result(work.name, last.manifest_key, last.state_digest)
        losses = [each.loss for each in curve.points]
        figures = RunFigures(training=progress_of(work))
        if losses:
            figures.training.loss = curves.loss(work.loss, *newest_loss(losses))[0]
        return replace(seen, reason="", result=result, summary=trained(work, losses), figures=figures)

    def on_the_way(self, result: Result, host: Host) -> Iterator[Result]:
        """The checkpoints before the last one."""
        for page in kind_of(Checkpoint).pages(host.channel("committer"), f"job={result.resource}"):
            for each in page:
                if each.state == CHECKPOINT_STATE_COMMITTED and each.manifest_key != result.manifest_key:
                    yield Result(result.resource, each.manifest_key, each.state_digest)

    def listed(self, data: bytes, *, thorough: bool) -> tuple[str, list[Checked]]:
        body = CheckpointBody.decode(data)
        return body.state_digest, [
            Expected(blob.key, blob.nbytes, blob.bytes_digest if thorough else "") for blob in body.blobs
        ]

    def summary(self, work: Any) -> str:
        return trained(work, ())


def progress_of(job: Job) -> RunTraining:
    """The progress of a training, or what came of it."""
    found = RunTraining(
        job=job.name,
        step=job.step,
        steps=job.spec.steps,
        skipped=job.skipped,
        skipped_in_a_row=job.skipped_in_a_row,
        model_digest=job.model_digest,
    )
    if job.step:
        found.loss = job.loss
    if job.decided_step:
        found.checkpoint = f"checkpoints/{job.name.removeprefix('jobs/')}/{job.line}/{job.decided_step}"
    if job.spec.training:
        found.parameters = Layout(Training.from_json(job.spec.training).model).parameters
    for field in ("tokens_per_second", "seconds_left", "bits_per_byte"):
        if job.HasField(field):
            setattr(found, field, getattr(job, field))
    return found


def trained(job: Job, losses: Iterable[float]) -> str:
    """The steps and the loss of a job, by the `losses` of its newest steps; without any, the loss that it reported."""
    loss, which = curves.loss(job.loss, *newest_loss(losses))
    return f"{job.step:,} steps, loss {loss:.4f}, {which}"
