"""Jobs whose gang is larger than all registered nodes together: they wait for other agents, for a limited time.

Promises: a job says at once how many slots there are and how to add some; only time in which the scheduler was up
counts against it; its reason is written once, and not again while nothing changes.
"""

from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import Job
from tutti.scheduler import gangs, jobs, queue, topology
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.nodewatch import NodeWatch
from tutti.scheduler.tables import Tables


class TooLarge:
    """`seconds`: the time limit."""

    def __init__(self, tables: Tables, epochs: Epochs, watch: NodeWatch, seconds: float) -> None:
        self._tables, self._epochs, self._watch, self._seconds = tables, epochs, watch, seconds

    def wait(self, unit: Unit, job: Job, reason: str) -> float | None:
        """Record why a queued job waits; fail one whose time is over.

        Returns the seconds that are left to it, None for a job that is not too large.
        """
        workers = topology.workers(job)
        nodes = [node for node in self._tables.nodes.select(unit) if not gangs.is_excluded(node)]
        if (slots := gangs.registered(nodes)) >= topology.wanted(job) + workers:
            self._tables.jobs.put(unit, jobs.waiting(job, reason))
            return None
        begun = micros(job.started_at.ToDatetime(unit.now.tzinfo))
        since = max(begun, self._tables.jobs.newest_line(unit, job), self._watch.up_since(unit))
        left = self._seconds - (micros(unit.now) - since) / 1_000_000
        what = f"{reason}; {queue.too_large(job.name, slots=slots, workers=workers)}"
        if left <= 0:
            self._epochs.end(unit, jobs.failed(job, f"{what}; none came within {self._seconds:g} s", unit.now))
            return None
        self._tables.jobs.put(unit, jobs.waiting(job, f"{what}; it fails if none comes within {self._seconds:g} s"))
        return left
