"""The metric of stragglers: which ranks of running jobs are slow.

Promises: every replica shows the same, and a job that ended or a rank that caught up is shown no longer.
"""

from tutti.chassis.metrics import metrics
from tutti.chassis.service import Host
from tutti.contracts.scheduler.v1 import JOB_STATE_RUNNING
from tutti.scheduler.tables import Tables

INTERVAL_SECONDS = 15.0

straggler = metrics.gauge(
    "straggler_ratio",
    "Time of a slow rank for a leaf divided by that of the other ranks of its job",
    "",
    ("job", "rank", "node"),
)


class PaceWatch:
    """A loop of every replica."""

    name, interval = "scheduler pace watch", INTERVAL_SECONDS

    def __init__(self, host: Host, tables: Tables) -> None:
        self._host, self._tables = host, tables
        self._shown: set[tuple[str, str, str]] = set()

    def step(self) -> bool:
        running = self._host.units.run(lambda unit: self._tables.jobs.select(unit, state=int(JOB_STATE_RUNNING)))
        slow = {(job.name, str(each.rank), each.node): each.ratio for job in running for each in job.stragglers}
        now = {labels: ratio for labels, ratio in slow.items() if ratio > 0}
        for labels in self._shown - now.keys():
            straggler.remove(*labels)
        for labels, ratio in now.items():
            straggler.labels(*labels).set(ratio)
        self._shown = set(now)
        return False
