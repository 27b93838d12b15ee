"""The errors of checkpoints.

Each says what was seen, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.records.errors import CorpusError


class CheckpointError(CorpusError):
    """Base of every error that this library raises on purpose."""


class InvalidReport(CheckpointError):
    """A shard report does not have the form that it promises."""


class InvalidCheckpoint(CheckpointError):
    """A checkpoint's manifest does not have the form that its kind promises."""


class InvalidCurve(CheckpointError):
    """A curve does not have the form that it promises."""


class Incomplete(CheckpointError):
    """The reports do not make one whole state of one step."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A defect of a blob; `where` is a chunk's name and tensor, or empty for the blob as a whole."""

    blob: str
    where: str
    seen: str
    expected: str

    def __str__(self) -> str:
        place = f"{self.blob}, {self.where}" if self.where else self.blob
        return f"{place}: seen {self.seen}, expected {self.expected}"


def in_words(problems: Sequence[Problem]) -> str:
    """The first of them, and how many more there are."""
    shown = "; ".join(str(problem) for problem in problems[:3])
    return f"{shown}; and {len(problems) - 3} more" if len(problems) > 3 else shown


class Damaged(CheckpointError):
    """Stored bytes are not the bytes that were digested."""

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        super().__init__(f"{what} is damaged: {in_words(problems)}; resume from the checkpoint before it")
        self.problems = tuple(problems)
