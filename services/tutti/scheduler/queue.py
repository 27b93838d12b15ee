"""The queue: whose turn it is, and why a job waits.

Promises: first come, first served; a job that the nodes could never hold does not keep others waiting.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.records.counts import counted
from tutti.scheduler.gangs import node_words


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


def waits_for(*, ranks: int, missing: int, without: Mapping[str, Sequence[str]], kernels: int) -> str:
    """A text that says what a gang that cannot be placed waits for; `without`: nodes by why they take no ranks."""
    if missing < ranks:
        reason = f"waiting for {counted(missing, 'more free slot')}: it needs {ranks}, one a rank"
    else:
        reason = f"waiting for {'a node' if ranks == 1 else 'nodes'} with {counted(ranks, 'free slot')}"
    reason += "".join(f"; {why}: {node_words(nodes)}" for why, nodes in without.items() if nodes)
    if kernels > 1:
        reason += f"; kernel signatures differ: {kernels} among the nodes, and a gang has one"
    return reason


def too_large(job: str, *, slots: int, workers: int) -> str:
    """A text about a gang that all registered nodes together cannot hold; `workers` are ranks that do not train."""
    ranks = slots - workers
    fewer = f", or `tutti jobs reshape {job.removeprefix('jobs/')} --dp {ranks}`" if ranks > 0 else ""
    return (
        f"registered agents that can run together have {slots}: add agents (`tutti up --agents N`, or `python -P -m "
        f"tutti.trainer` on another machine){fewer}"
    )
