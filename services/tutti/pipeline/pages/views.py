"""Views of the pages of runs, made of messages. Pure.

Promises: the fields are what the JSON beside a page has; times are ISO 8601 in UTC, empty where there is none.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tutti.chassis.enums import word
from tutti.client.titles import title_of
from tutti.contracts.committer.v1 import Checkpoint, CurvePoint, GetCurveResponse
from tutti.contracts.common.v1 import State
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    Job,
    JobState,
)
from tutti.contracts.tokenization.v1 import Dataset
from tutti.pipeline.pages.labelling import ShownLabels
from tutti.pipeline.pages.labelling import shown as shown_labels
from tutti.pipeline.pages.times import moment_of
from tutti.records.figures import newest_loss
from tutti.report import figures
from tutti.report.durations import seconds
from tutti.report.figures import Figure
from tutti.web import curves as shown
from tutti.web.charts import Series

JOBS, TOKENIZATIONS = "jobs/", "tokenizations/"
SHOWN_CHECKPOINTS = 20
ENDED = (JOB_STATE_DONE, JOB_STATE_FAILED, JOB_STATE_CANCELLED)


@dataclass(frozen=True)
class StageRow:
    name: str
    state: str
    seconds: float
    reason: str
    resource: str
    content_digest: str
    summary: str


@dataclass(frozen=True)
class CheckpointRow:
    name: str
    step: int
    loss: float
    bits_per_byte: float | None
    bytes: int
    decided_at: str
    state_digest: str


@dataclass(frozen=True)
class Training:
    """A job of the run. `curves` reach to its newest checkpoint; `loss_of` says which steps `loss` is of, if any."""

    job: str
    state: str
    step: int
    steps: int
    loss: float | None
    loss_of: str
    bits_per_byte: float | None
    tokens_per_second: float | None
    seconds_left: float | None
    skipped: int
    skipped_in_a_row: int
    epoch: int
    ranks: int
    reason: str
    history: Sequence[str]
    curves: Sequence[Series]
    checkpoints: Sequence[CheckpointRow]
    more_checkpoints: int


@dataclass(frozen=True)
class RunView:
    """`missing`: which services did not answer, in words; what they know is not shown."""

    name: str
    title: str
    state: str
    reason: str
    started_at: str
    ended_at: str
    seconds: float
    recipe: str
    recipe_digest: str
    figures: Sequence[Figure]
    stages: Sequence[StageRow]
    trainings: Sequence[Training]
    missing: Sequence[str]
    labels: ShownLabels


@dataclass(frozen=True)
class ReportView:
    """A report: its data as `tutti run -o json` prints them, and as a part of a page."""

    name: str
    title: str
    summary: Mapping[str, Any]
    html: str


def run_view(
    run: Run, now: datetime, trainings: Sequence[Training], datasets: Sequence[Dataset], missing: Sequence[str]
) -> RunView:
    return RunView(
        name=run.name,
        title=title_of(run) or run.name,
        state=_state(run.state),
        reason=run.reason,
        started_at=moment_of(run, "started_at"),
        ended_at=moment_of(run, "ended_at"),
        seconds=seconds(run, now.timestamp()),
        recipe=json.dumps(json.loads(run.spec.recipe), indent=2, ensure_ascii=False) if run.spec.recipe else "",
        recipe_digest=run.spec.recipe_digest,
        figures=_figures(trainings, datasets),
        stages=[_stage(stage, now) for stage in run.stages],
        trainings=trainings,
        missing=missing,
        labels=shown_labels(run),
    )


def training(
    job: Job, curve: GetCurveResponse | None, checkpoints: Sequence[Checkpoint], newest_steps: Sequence[CurvePoint] = ()
) -> Training:
    """`checkpoints` of the job in any order; `newest_steps` are NEWEST_STEPS up to its newest one."""
    losses = [each.loss for each in newest_steps] if job.state in ENDED else []  # it may be far beyond the curve
    loss, loss_of = shown.loss(job.loss, *newest_loss(losses))
    newest = sorted(checkpoints, key=lambda each: (each.line, each.step), reverse=True)
    return Training(
        job=job.name,
        state=word(JobState.DESCRIPTOR, JobState.Name(job.state)),
        step=job.step,
        steps=job.spec.steps,
        loss=loss if job.step else None,
        loss_of=loss_of,
        bits_per_byte=job.bits_per_byte if job.HasField("bits_per_byte") else None,
        tokens_per_second=job.tokens_per_second if job.HasField("tokens_per_second") else None,
        seconds_left=job.seconds_left if job.HasField("seconds_left") else None,
        skipped=job.skipped,
        skipped_in_a_row=job.skipped_in_a_row,
        epoch=job.epoch,
        ranks=job.shape.data_parallel or job.spec.data_parallel,
        reason=job.reason,
        history=list(job.history),
        curves=shown.curves(curve) if curve is not None else [],
        checkpoints=[_checkpoint(each) for each in newest[:SHOWN_CHECKPOINTS]],
        more_checkpoints=max(0, len(newest) - SHOWN_CHECKPOINTS),
    )


def jobs_of(run: Run) -> list[str]:
    """The training jobs of a run, in the order of its stages."""
    return [stage.resource for stage in run.stages if stage.resource.startswith(JOBS)]


def tokenizations_of(run: Run) -> list[str]:
    """The resources of a run that made its datasets."""
    return [stage.resource for stage in run.stages if stage.resource.startswith(TOKENIZATIONS)]


def newest_checkpoint(job: Job) -> str:
    """The name of a job's newest checkpoint; empty before the first."""
    return f"checkpoints/{job.name.removeprefix(JOBS)}/{job.line}/{job.decided_step}" if job.decided_step else ""


def _figures(trainings: Sequence[Training], datasets: Sequence[Dataset]) -> list[Figure]:
    rows = [figures.tokens(dataset.tokens, dataset.validation_tokens) for dataset in datasets]
    for each in trainings:
        rows.append(figures.steps(each.step, f"of {each.steps:,}, {figures.ranks(each.ranks)}"))
        rows += figures.skips(each.skipped, each.skipped_in_a_row)
        if each.loss is not None:
            rows.append(figures.loss(each.loss, each.loss_of))
        if each.bits_per_byte is not None:
            bigram = datasets[0].bigram_bits_per_byte if len(datasets) == 1 else 0.0
            rows.append(
                figures.bits_per_byte(each.bits_per_byte, f"bigram {bigram:.3f}" if bigram else "held-out text")
            )
        if each.checkpoints:
            total = len(each.checkpoints) + each.more_checkpoints
            rows.append(figures.checkpoints(total, f"newest: step {each.checkpoints[0].step:,}"))
    return rows


def _stage(stage: Stage, now: datetime) -> StageRow:
    state = "reused" if stage.reused else _state(stage.state)
    return StageRow(
        name=stage.name,
        state=state,
        seconds=seconds(stage, now.timestamp()),
        reason="" if stage.reason == state else stage.reason,
        resource=stage.resource,
        content_digest=stage.content_digest,
        summary=stage.summary,
    )


def _checkpoint(found: Checkpoint) -> CheckpointRow:
    return CheckpointRow(
        name=found.name,
        step=found.step,
        loss=found.loss,
        bits_per_byte=found.bits_per_byte if found.HasField("bits_per_byte") else None,
        bytes=found.bytes,
        decided_at=moment_of(found, "decided_at"),
        state_digest=found.state_digest,
    )


def _state(state: State.ValueType) -> str:
    return word(State.DESCRIPTOR, State.Name(state))
