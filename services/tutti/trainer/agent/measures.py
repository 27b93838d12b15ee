"""Measurements of a node's ranks, as metrics and as a curve: the agent aggregates, ranks push nothing.

Metrics that are not finite are counted and not shown; the curve keeps them. The series of a job are removed when
MOST_ENDED other jobs have ended on the node after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from tutti.chassis.metrics import metrics
from tutti.contracts.trainer.v1 import OUTCOME_SKIPPED, Progress, Stored
from tutti.model.results import SkipCause

if TYPE_CHECKING:
    from tutti.checkpoints.curve import Recorder

_LABELS = ("job",)
_COLLECTIVES = ("reduce", "vote", "gather")
MOST_ENDED = 64
"""Jobs that ended and are still shown: short ones too stay for the next scrapes to read their last values."""

step_time = metrics.histogram("step_time", "Wall time of a training step", "seconds", _LABELS)
tokens = metrics.counter("tokens", "Tokens of the steps that were crossed, all ranks", "", _LABELS)
rate = metrics.gauge("tokens_per_second", "Tokens of the newest step divided by its time", "", _LABELS)
loss = metrics.gauge("loss", "Mean loss of the newest step, nats a token", "", _LABELS)
norm = metrics.gauge("gradient_norm", "Norm of the newest mean gradient, before clipping", "", _LABELS)
bits = metrics.gauge("bits_per_byte", "Bits per byte of the newest validation", "", _LABELS)
validation_loss = metrics.gauge("validation_loss", "Mean loss of the newest validation, nats a token", "", _LABELS)
learning_rate = metrics.gauge("learning_rate", "Learning rate of the newest step", "", _LABELS)
overflows = metrics.counter("overflow_count", "Steps that were skipped because a number was not finite", "", _LABELS)
spikes = metrics.counter("spikes", "Spikes of the loss or the gradient norm that ended", "", _LABELS)
latency = metrics.histogram("collective_latency", "Time in collectives a step, without waiting", "seconds", _LABELS)
share = metrics.gauge("communication_time_ratio", "Share of the newest step spent in collectives", "", _LABELS)
data_wait = metrics.histogram("dataloader_wait", "Time to read the batches of a step", "seconds", _LABELS)
stall = metrics.histogram("checkpoint_stall", "Time that ranks stood still for a snapshot", "seconds", _LABELS)
duration = metrics.histogram("checkpoint_duration", "From a snapshot to its storage", "seconds", _LABELS)
hits = metrics.gauge("cache_hit_ratio", "Bytes of the newest dataset staged that were on the node", "", _LABELS)
restore = metrics.histogram("restore", "From an assignment to the first ready rank", "seconds", _LABELS)
restored = metrics.gauge("restore_bytes", "Bytes that the newest attempt staged", "", _LABELS)
shards = metrics.counter("checkpoint_bytes", "Bytes of the shards that were stored", "", _LABELS)
writing = metrics.counter("blob_write", "Time that the blob store took to write shards", "seconds", _LABELS)
ranks = metrics.gauge("ranks_running", "Ranks of the attempt that runs on this node", "", _LABELS)
goodput = metrics.gauge("goodput_ratio", "Share of its time here in which a job crossed new steps", "", _LABELS)
retries = metrics.counter("retry_count", "Reports to the control plane that were repeated", "", ("lane",))
programs = metrics.gauge("program_metric", "What the program measured at the newest step", "", ("job", "name"))
refused = metrics.counter("refused_measures", "Measures that were not finite and are not shown", "", _LABELS)
losses = metrics.counter("lost_attempts", "Attempts that ended before their time on this node", "", _LABELS)


_OF_JOBS = (
    step_time, tokens, rate, loss, norm, bits, validation_loss, learning_rate, overflows, spikes, latency, share,
    data_wait, stall, duration, hits, restore, restored, shards, writing, ranks, goodput, refused, losses,
)  # fmt: skip


@dataclass
class _Job:
    """A job with series. `began`: when it came to this node, in monotonic seconds; None for one whose shards alone do.

    `furthest` and `useful_seconds` are its use of the time since then; `programs` are the names that its program
    measured.
    """

    began: float | None = None
    running: bool = False
    furthest: int = 0
    useful_seconds: float = 0.0
    programs: set[str] = field(default_factory=set)


_jobs: dict[str, _Job] = {}
"""The one that was measured last is the last."""


def _measured(job: str) -> _Job:
    """Return what is known of a job, and remove the series of those that ended long ago."""
    measured = _jobs[job] = _jobs.pop(job) if job in _jobs else _Job()
    ended = [name for name, each in _jobs.items() if not each.running]
    for name in ended[: max(0, len(ended) - MOST_ENDED)]:
        for measure in _OF_JOBS:
            measure.remove(name)
        for program in _jobs.pop(name).programs:
            programs.remove(name, program)
    return measured


def began(job: str, now: float) -> None:
    """An attempt begins; `now` is of a monotonic clock. What alert rules count is shown from here on.

    Prometheus counts no increase from the first sample of a series: one that began with the first loss would hide it.
    """
    measured = _measured(job)
    measured.running, measured.began = True, now if measured.began is None else measured.began
    for measure in (step_time, overflows, stall, duration, restore, shards, writing, losses):
        measure.labels(job)


def ended(job: str) -> None:
    """The attempt that ran here is gone."""
    ranks.labels(job).set(0)
    _measured(job).running = False


def staged(job: str, found_bytes: int, brought_bytes: int) -> None:
    """A dataset is on the node now."""
    restored.labels(job).set(found_bytes + brought_bytes)
    if found_bytes + brought_bytes:
        hits.labels(job).set(found_bytes / (found_bytes + brought_bytes))


def stored(told: Stored) -> None:
    """A shard is in the blob store, perhaps after its job ended, or of a job of a former agent of the node."""
    _measured(told.job)
    duration.labels(told.job).observe(told.seconds)
    shards.labels(told.job).inc(told.bytes)
    writing.labels(told.job).inc(told.writing_seconds)


def progress(job: str, told: Progress, now: float) -> None:
    """One step of one rank; called for one rank of a node. A step that is computed again is no goodput."""
    measured = _measured(job)
    if measured.began is None:
        measured.began = now - told.seconds
    if told.step > measured.furthest and told.outcome != OUTCOME_SKIPPED:
        measured.furthest = told.step
        measured.useful_seconds += told.seconds
    if now > measured.began:
        goodput.labels(job).set(min(measured.useful_seconds / (now - measured.began), 1.0))
    step_time.labels(job).observe(told.seconds)
    data_wait.labels(job).observe(told.timings["read"])
    tokens.labels(job).inc(told.tokens)
    spent = _collectives(told.timings)
    latency.labels(job).observe(spent)
    if told.outcome == OUTCOME_SKIPPED and told.skip_cause != SkipCause.SPIKE:
        overflows.labels(job).inc()
    if told.HasField("spike"):
        spikes.labels(job).inc()
    _show(loss, job, told.loss)
    _show(norm, job, told.gradient_norm)
    if told.seconds > 0:
        _show(share, job, spent / told.seconds)
        _show(rate, job, told.tokens / told.seconds)
    _show(learning_rate, job, told.rate)
    for name, value in told.metrics.items():
        if math.isfinite(value):
            measured.programs.add(name)
            programs.labels(job, name).set(value)
    if told.HasField("validation_nats") and told.validation_tokens:
        _show(validation_loss, job, told.validation_nats / told.validation_tokens)
    if told.HasField("bits_per_byte"):
        _show(bits, job, told.bits_per_byte)


def record(curve: Recorder, told: Progress) -> None:
    """Add one step of one rank to the curve that its next snapshot carries."""
    curve.step(
        told.step,
        loss=told.loss,
        gradient_norm=told.gradient_norm,
        rate=told.rate,
        tokens=told.tokens,
        skipped=told.outcome == OUTCOME_SKIPPED,
    )
    curve.metrics(told.step, told.metrics)
    if told.HasField("validation_nats") or told.HasField("bits_per_byte"):
        curve.validation(
            told.step,
            nats=told.validation_nats,
            tokens=told.validation_tokens,
            bits_per_byte=told.bits_per_byte if told.HasField("bits_per_byte") else None,
        )


def _collectives(timings: Mapping[str, float]) -> float:
    return sum(timings[part] for part in _COLLECTIVES if part in timings)


def _show(gauge: Gauge, job: str, value: float) -> None:
    if math.isfinite(value):
        gauge.labels(job).set(value)
    else:
        refused.labels(job).inc()
