"""The queue: whose turn it is, and why a job waits.

Promises: first come, first served; a job that the nodes could never hold does not keep others waiting.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """A job that wants so many ranks since `since` (microseconds)."""

    job: str
    since: int
    ranks: int


def ahead_of(job: Waiting, queue: Iterable[Waiting], capacity: int) -> Waiting | None:
    """The first job that comes before this one and that the nodes could hold, if any."""
    before = [each for each in queue if (each.since, each.job) < (job.since, job.job) and each.ranks <= capacity]
    return min(before, key=lambda each: (each.since, each.job), default=None)


def pending_because(
    *, ranks: int, missing: int, lost: Sequence[str], draining: Sequence[str], full: Sequence[str], kernels: int
) -> str:
    """Why no gang can be placed, for people."""
    reason = f"pending because {_count(missing, 'slot')} of {_count(ranks, 'slot')} for ranks {_are(missing)} missing"
    if lost:
        reason += f"; lost: {', '.join(lost)}"
    if draining:
        reason += f"; draining: {', '.join(draining)}"
    if full:
        reason += f"; with as many jobs as a node can be told of: {', '.join(full)}"
    if kernels > 1:
        reason += f"; kernel signatures differ: {kernels} among the nodes, and a gang has one"
    return reason


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
