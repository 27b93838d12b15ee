"""The rules of opening an epoch: who may, from where it resumes, on which line it writes.

Epochs only grow. A resume point of another shape needs a transition; a resume after doubt, and every one below a step
that the line has already decided, starts a new line, so that nothing decided is ever written over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tutti.chassis.errors import AlreadyExists, Refused, StaleEpoch, declare
from tutti.model.training import Training

TRANSITION_REQUIRED, ANOTHER_TRAINING, ANOTHER_DATASET = "TRANSITION_REQUIRED", "ANOTHER_TRAINING", "ANOTHER_DATASET"
BASE_UNUSABLE = "BASE_UNUSABLE"
declare(
    {
        TRANSITION_REQUIRED: "the resume point was written under another shape; record a transition first",
        ANOTHER_TRAINING: "the job was started with another training; start another job",
        ANOTHER_DATASET: "the job reads another dataset; start another job",
        BASE_UNUSABLE: "a checkpoint that the job starts from or reads is suspect, damaged or gone",
    }
)


@dataclass(frozen=True)
class OpenEpoch:
    """The epoch that is open for a job, as far as the rules look at it."""

    epoch: int
    line: int
    training_digest: str
    dataset_digest: str
    request_digest: str


@dataclass(frozen=True)
class ResumePoint:
    """A committed checkpoint whose bytes were read back; step 0 is the start, with no checkpoint."""

    line: int = 0
    step: int = 0
    checkpoint: str = ""
    shape_digest: str = ""


@dataclass(frozen=True)
class Branch:
    """The line that an epoch writes; `is_new` with its parent and the step that it branches after."""

    line: int
    parent_line: int
    from_step: int
    is_new: bool


def is_repeated(job: str, epoch: int, request_digest: str, found: OpenEpoch | None) -> bool:
    """True if this very request was answered before. Raises StaleEpoch, AlreadyExists."""
    if found is None or epoch > found.epoch:
        return False
    if epoch < found.epoch:
        raise StaleEpoch(f"{job}: epoch {epoch} was asked for, {found.epoch} is open; lower ones are refused for ever")
    if request_digest != found.request_digest:
        raise AlreadyExists(f"epoch {epoch} of {job}", ours=found.request_digest, theirs=request_digest)
    return True


def require_same_job(job: str, found: OpenEpoch | None, *, training_digest: str, dataset_digest: str) -> None:
    """A job has one training and one dataset, from its first epoch on, unless it goes back. Raises Refused."""
    for reason, name, seen, expected in (
        (ANOTHER_TRAINING, "training", training_digest, found.training_digest if found else training_digest),
        (ANOTHER_DATASET, "dataset", dataset_digest, found.dataset_digest if found else dataset_digest),
    ):
        if seen != expected:
            raise Refused(reason, f"{job} has {name} {expected}, the new epoch {seen}; start another job for it")


def goes_back(training: Training, earlier: Training, trusted_step: int | None) -> bool:
    """True if a job goes back, to the trusted step, before steps whose data it leaves out from then on.

    Apart from them its training is the same.
    """
    more = training.skipped[len(earlier.skipped) :]
    same = training == replace(earlier, skipped=(*earlier.skipped, *more))
    return same and bool(more) and trusted_step is not None and all(each.first > trusted_step for each in more)


def transition_used(resume: ResumePoint, *, shape_digest: str, transition: str) -> str:
    """The transition that an epoch is opened by; "" when it needs none. Raises Refused when the one it needs lacks."""
    if not resume.checkpoint or resume.shape_digest == shape_digest:
        return ""
    if not transition:
        raise Refused(
            TRANSITION_REQUIRED,
            f"{resume.checkpoint} was written under shape {resume.shape_digest}, the epoch has {shape_digest}; "
            "record a transition (tutti jobs reshape) and open the epoch with its name",
        )
    return transition


def branch(
    resume: ResumePoint, *, line: int, from_step: int, lines: int, taken: Sequence[int], doubted: bool
) -> Branch:
    """The branch on which to continue from `resume`, when `line` (which branches after `from_step`) is the newest of
    `lines`.

    `taken` are the steps that have a name on it already, damaged ones included. `doubted`: what it holds is in doubt.
    """
    if doubted or resume.step < from_step or any(step > resume.step for step in taken):
        return Branch(lines, resume.line, resume.step, is_new=True)
    return Branch(line, line, resume.step, is_new=False)


def history(lines: Sequence[tuple[int, int, int]], line: int) -> list[tuple[int, int | None]]:
    """The stretch that `line` stands on, newest first: (line, up to which step; None: all of it).

    `lines` are (line, parent line, from step).
    """
    parents = {number: (parent, from_step) for number, parent, from_step in lines}
    found: list[tuple[int, int | None]] = [(line, None)]
    limit: int | None = None
    while line in parents and parents[line][0] != line:
        line, from_step = parents[line]
        limit = from_step if limit is None else min(limit, from_step)
        found.append((line, limit))
    return found
