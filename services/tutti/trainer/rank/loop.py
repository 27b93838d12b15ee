"""The loop of a rank: step after step of its job's program.

Every step is crossed by all ranks together; what is due after it (metrics, snapshot) happens before the next.
"""

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tutti.checkpoints.scalars import StateScalars
from tutti.contracts.scheduler.v1 import Spike as WireSpike
from tutti.contracts.trainer.v1 import (
    OUTCOME_COMMITTED,
    OUTCOME_SKIPPED,
    Finished,
    Progress,
    RankMessage,
    RolledOut,
    Snapshot,
)
from tutti.corpus.tokens.ledger import Ledger, SkippedStep
from tutti.corpus.tokens.skips import until
from tutti.model.batch import LeafBatch
from tutti.model.pace import Finding, Pace
from tutti.model.results import Outcome, Scalars, SkipCause, StepResult
from tutti.model.spikes import REWIND, Spike
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.records.canonical import bytes_digest
from tutti.trainer.failures import GoesBack, RankFailure, Reason
from tutti.trainer.io.buffers import SharedBuffer
from tutti.trainer.lifeline import WAITING_FOR_BUFFER, Lifeline
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs.program import Batches, Program
from tutti.trainer.rank.paces import to_wire

MOST_SKIPPED = 10
"""Steps in a row that change nothing; with so many a training has diverged."""
MOST_LEFT_OUT = 10
"""Spikes whose data a training leaves out; one that goes back again has diverged."""
_SLOWER = "lower train.learning_rate, or raise train.warmup"
REMEDIES: Mapping[str, str] = {
    SkipCause.NOT_FINITE: _SLOWER,
    SkipCause.OVERFLOW: _SLOWER,
    SkipCause.NO_TOKENS: "their rows have no token to learn from: look whether the conversations have answers "
    "that count, and whether they are cut before them",
    SkipCause.SPIKE: "look at the data of these steps, or lower train.learning_rate",
}


class Loop:
    """One rank's loop from the state that it has to the last step."""

    def __init__(
        self,
        program: Program[Any],
        training: Training,
        step: RankStep,
        data: Batches,
        ledger: Ledger,
        buffers: list[SharedBuffer],
        lifeline: Lifeline,
    ) -> None:
        self._program, self._training, self._step, self._data, self._ledger = program, training, step, data, ledger
        self._buffers, self._lifeline = buffers, lifeline
        self._free = list(range(len(buffers)))
        self._pace = Pace(step.leaves_computed)

    def run(self) -> None:
        """Raises Stopped at a step boundary, StepAborted and CorpusError with the state as before the step."""
        lifeline, training = self._lifeline, self._training
        while (step := self._step.scalars().step + 1) <= training.steps:
            lifeline.check_stop()
            self._check_divergence(step)
            lifeline.step = step
            started = time.monotonic()
            lifeline.phase = "preparing"
            self._data.prepare(self._step, step)
            self._tell_experience()
            lifeline.phase = "reading"
            needed = self._step.leaves_needed(step)
            leaves = self._data.leaves(self._ledger, step, needed)
            read = time.monotonic() - started
            lifeline.phase = "stepping"
            result = self._step.run(step, leaves, functools.partial(self._leaf, step, needed))
            if result.skip is not None:
                self._ledger = self._ledger.skip(step - 1, cause=result.skip)
            crossed = time.monotonic() - started
            lifeline.phase = "validating"
            due = self._program.measure_due(training, step)
            decided = self._program.finish(self._step, self._data) if step == training.steps else {}
            metrics = self._program.measure(self._step, self._data) if due else None
            if metrics is not None and decided:
                metrics = dataclasses.replace(metrics, named={**metrics.named, **decided})
            scalars = self._step.scalars()
            progress = _progress(result, scalars, metrics, seconds=crossed, read=read)
            goes_back = result.spike is not None and training.spikes == REWIND
            if result.spike is not None and not goes_back and self._step.rank == 0:
                progress.spike.CopyFrom(_spike(result.spike, self._ledger))
            if (finding := self._paced(result)) is not None:
                progress.pace.CopyFrom(to_wire(finding))
            lifeline.send(RankMessage(progress=progress))
            if result.spike is not None and goes_back:
                raise going_back(training, _spike(result.spike, self._ledger))
            if self._program.checkpoint_due(training, step):
                self._snapshot(result, metrics)
        lifeline.phase = "finished"
        lifeline.send(RankMessage(finished=Finished(step=training.steps)))

    def _paced(self, result: StepResult) -> Finding | None:
        """Return the finding of the lowest rank about all. Audits are left out, because they make the witness slow."""
        if self._step.rank != 0 or self._step.audit(result.step) is not None:
            return None
        return self._pace.add(result.step, result.busy)

    def _leaf(self, step: int, needed: tuple[int, ...], leaf: int) -> LeafBatch:
        """Return a leaf of a step beside those that were needed first."""
        found: LeafBatch = self._data.leaves(self._ledger, step, (*needed, leaf))[leaf]
        return found

    def _tell_experience(self) -> None:
        """Send the experience of the step, which is the same on all ranks, from the first rank."""
        experience = self._program.experience(self._data)
        if experience is not None and self._step.rank == 0:
            data = experience.encode()
            self._lifeline.send(
                RankMessage(
                    rolled_out=RolledOut(
                        iteration=experience.iteration, step=experience.step, digest=bytes_digest(data), data=data
                    )
                )
            )

    def _check_divergence(self, step: int) -> None:
        """Raises RankFailure. Each skip was confirmed, and the count is part of the state: no other attempt is made.

        The steps of a spike do not count: a spike ends, at the latest as a new level of the loss.
        """
        in_a_row = self._step.scalars().skipped_in_a_row
        skipped = self._ledger.skipped[-in_a_row:] if in_a_row else ()
        if has_diverged(skipped):
            raise RankFailure(Reason.DIVERGED, skips_in_words(step, skipped))

    def _snapshot(self, result: StepResult, metrics: Metrics | None) -> None:
        started = time.monotonic()
        self._lifeline.phase = WAITING_FOR_BUFFER
        buffer = self._free.pop(0) if self._free else self._lifeline.free_buffer()
        self._lifeline.phase = "copying a snapshot"
        self._step.snapshot_into(self._buffers[buffer].view)
        self._lifeline.send(
            RankMessage(
                snapshot=Snapshot(
                    step=result.step,
                    buffer=buffer,
                    scalars=self._scalars().to_json(),
                    seconds=time.monotonic() - started,
                    loss=result.loss,
                    bits_per_byte=metrics.bits_per_byte if metrics else None,
                )
            )
        )

    def _scalars(self) -> StateScalars:
        model, step = self._step.scalars(), self._training.step
        return StateScalars(model, model.step * step.leaves * step.rows, until(self._ledger, model.step))


def _progress(
    result: StepResult, scalars: Scalars, metrics: Metrics | None, *, seconds: float, read: float
) -> Progress:
    progress = Progress(
        step=result.step,
        outcome=OUTCOME_COMMITTED if result.outcome is Outcome.COMMITTED else OUTCOME_SKIPPED,
        loss=result.loss,
        gradient_norm=result.gradient_norm,
        rate=result.rate,
        tokens=result.tokens,
        seconds=seconds,
        timings={**dataclasses.asdict(result.timings), "read": read},
        skip_cause=result.skip or "",
        skipped=len(scalars.skipped),
        skipped_in_a_row=scalars.skipped_in_a_row,
    )
    if metrics is not None:
        progress.metrics.update(metrics.named)
    if metrics is not None and metrics.tokens:
        progress.validation_nats = metrics.nats
        progress.validation_tokens = metrics.tokens
        if metrics.bits_per_byte is not None:
            progress.bits_per_byte = metrics.bits_per_byte
    return progress


def has_diverged(skipped: Sequence[SkippedStep]) -> bool:
    """True if MOST_SKIPPED of the newest steps, which were skipped in a row, are no part of a spike."""
    return sum(each.cause != SkipCause.SPIKE for each in skipped) >= MOST_SKIPPED


def going_back(training: Training, spike: WireSpike) -> RankFailure:
    """The end of an attempt on all ranks, which found the same spike; the next attempt, if any, leaves out its data."""
    if (left_out := len(training.skipped)) < MOST_LEFT_OUT:
        return GoesBack(spike)
    words = f"steps {spike.first} to {spike.last} are a spike, and the data of {left_out} others are left out already"
    return RankFailure(Reason.DIVERGED, f"{words}: {REMEDIES[SkipCause.SPIKE]}")


def _spike(spike: Spike, ledger: Ledger) -> WireSpike:
    steps = range(spike.first, spike.last + 1)
    skipped = sum(each.step + 1 in steps and each.cause == SkipCause.SPIKE for each in ledger.skipped)
    return WireSpike(first=spike.first, last=spike.last, loss=spike.loss, gradient_norm=spike.norm, skipped=skipped)


def skips_in_words(step: int, skipped: Sequence[SkippedStep]) -> str:
    """Say why the steps before `step` were skipped, and what to do about the most frequent cause."""
    (cause, count), *others = Counter(each.cause for each in skipped).most_common()
    beside = "".join(f", {other} in {number}" for other, number in others)
    return f"steps {step - len(skipped)} to {step - 1} were skipped: {cause} in {count}{beside}: {REMEDIES[cause]}"
