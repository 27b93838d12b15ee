"""Suspect checkpoints: those whose bytes are intact, but whose state a convicted rank or a disagreement puts in doubt.

Promises: a suspect is neither resumed from nor deleted for that; it is cleared when a replay commits the same state.
Every function works inside the unit of the decision that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tutti.chassis.events.event import Event
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.keys import checkpoint_name
from tutti.committer import epochs
from tutti.committer.records import line_name
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_DECIDED,
    Checkpoint,
    Line,
)
from tutti.contracts.scheduler.v1 import JOB_STATE_CANCELLED, JOB_STATE_FAILED, Job

WHOLE = (CHECKPOINT_STATE_DECIDED, CHECKPOINT_STATE_COMMITTED)


class Suspects:
    def __init__(self, checkpoints: Resource[Checkpoint], lines: Resource[Line]) -> None:
        self._checkpoints, self._lines = checkpoints, lines

    def mark(self, unit: Unit, job: str, line: int, after: int, why: str) -> list[str]:
        """Mark what a line and its branches hold after a step, and every other checkpoint of the same states.

        Returns the names of those that were not suspect before.
        """
        lines = [(each.line, each.parent_line, each.from_step) for each in self._lines.select(unit, job=f"jobs/{job}")]
        doubtful = descending(lines, line, after)
        found = [each for each in self._checkpoints.select(unit, job=f"jobs/{job}") if each.state in WHOLE]
        states = {each.state_digest for each in found if each.line in doubtful and each.step > after}
        marked = []
        for each in found:
            if each.state_digest in states and not each.suspect:
                checkpoint = self._checkpoints.lock(unit, each.name)
                checkpoint.suspect = clipped(why)
                self._checkpoints.put(unit, checkpoint)
                marked.append(each.name)
        return marked

    def on_job(self, unit: Unit, events: Sequence[Event]) -> None:
        """Consume jobs: one that ended while its newest states were in doubt opens no epoch that would mark them."""
        for event in events:
            job: Job = event.message
            if job.state in (JOB_STATE_FAILED, JOB_STATE_CANCELLED) and job.HasField("trusted_step"):
                self._end_in_doubt(unit, job)

    def _end_in_doubt(self, unit: Unit, job: Job) -> None:
        """Mark what the job has, and note on its line that what is decided later is suspect, too."""
        name = job.name.removeprefix("jobs/")
        if self._lines.find(unit, line_name(name, job.line)) is None:
            return
        line = self._lines.lock(unit, line_name(name, job.line))
        line.trusted_step, line.doubt = job.trusted_step, clipped(job.reason)
        self._lines.put(unit, line)
        self.mark(unit, name, job.line, job.trusted_step, job.reason)

    def judge(self, unit: Unit, committed: Checkpoint) -> None:
        """A state was decided: it is suspect where its line says so; else it confirms the suspects of the same step and
        state.
        """
        job = committed.job.removeprefix("jobs/")
        own = self._lines.find(unit, line_name(job, committed.line))
        if own is not None and own.HasField("trusted_step") and committed.step > own.trusted_step:
            self.mark(unit, job, committed.line, committed.step - 1, own.doubt)
            return
        for line in range(committed.line):
            found = self._checkpoints.find(unit, checkpoint_name(job, line, committed.step))
            if found is not None and found.suspect and found.state_digest == committed.state_digest:
                checkpoint = self._checkpoints.lock(unit, found.name)
                checkpoint.suspect = ""
                self._checkpoints.put(unit, checkpoint)


def trusted(candidates: Iterable[Checkpoint]) -> Sequence[Checkpoint]:
    """Those that may be resumed from."""
    return [each for each in candidates if not each.suspect]


def descending(lines: Sequence[tuple[int, int, int]], line: int, after: int) -> set[int]:
    """The lines that hold `line` beyond the step `after`: itself, and those that branch from it later.

    `lines` are (line, parent line, from step).
    """

    def holds(number: int) -> bool:
        stretches = epochs.history(lines, number)
        return any(each == line and (limit is None or limit > after) for each, limit in stretches)

    return {number for number, _, _ in lines if holds(number)}
