"""Ancestry: on which line each step up to a checkpoint was made.

Promises: pure; what follows from the names of a checkpoint and of those that it was resumed from. A step before a
branch belongs to the line that was branched from, and one before a job began to the job that it continues.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ancestry:
    """The names of a checkpoint and of those before it, the oldest first."""

    names: tuple[str, ...]

    @property
    def oldest(self) -> str:
        return self.names[0]

    def line_of(self, step: int) -> tuple[str, int]:
        """The job and line of a step, counted from 1 to the checkpoint's own: those of the next checkpoint from there
        on.
        """
        name = self.names[bisect_left(self.names, step, key=lambda name: place_of(name)[1])]
        return job_of(name), place_of(name)[0]


def ancestry(checkpoint: str, parents: Mapping[str, str]) -> Ancestry:
    """`parents`: of a checkpoint the one that it was resumed from, by name."""
    names = [checkpoint]
    while names[-1] in parents:
        names.append(parents[names[-1]])
    return Ancestry(tuple(reversed(names)))


def job_of(checkpoint: str) -> str:
    """The job of `checkpoints/{job}/{line}/{step}`."""
    return f"jobs/{checkpoint.split('/')[1]}"


def place_of(checkpoint: str) -> tuple[int, int]:
    """Line and step of `checkpoints/{job}/{line}/{step}`."""
    _, _, line, step = checkpoint.split("/")
    return int(line), int(step)
