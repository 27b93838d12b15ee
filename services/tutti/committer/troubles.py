"""Troubles: why work on a job's snapshots does not go on, told at the line that the job writes.

Promises: each reconciler clears only what it told itself; a line whose deciding is given up is stuck, and the
scheduler ends the epoch.
"""

from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Trouble
from tutti.committer.records import Records, line_name
from tutti.contracts.committer.v1 import Line


class Troubles:
    """Each `of_` method is the `tell` of one reconciler."""

    def __init__(self, records: Records, lines: Resource[Line]) -> None:
        self._records, self._lines = records, lines

    def of_commits(self, unit: Unit, job: str, trouble: Trouble | None) -> None:
        self._tell(unit, job, "commits", trouble, stuck=trouble is not None and trouble.final)

    def of_reports(self, unit: Unit, job: str, trouble: Trouble | None) -> None:
        self._tell(unit, job, "reports", trouble, stuck=False)

    def of_garbage(self, unit: Unit, job: str, trouble: Trouble | None) -> None:
        self._tell(unit, job, "garbage", trouble, stuck=False)

    def _tell(self, unit: Unit, job: str, work: str, trouble: Trouble | None, *, stuck: bool) -> None:
        epoch = self._records.epoch(unit, job)
        if epoch is None:
            return
        line = self._lines.lock(unit, line_name(job, epoch.line))
        if trouble is not None:
            line.reason, line.stuck = clipped(f"{work}: {trouble.reason}"), stuck or line.stuck
        elif line.reason.startswith(f"{work}: "):
            line.reason, line.stuck = "", False
        self._lines.put(unit, line)
