"""Step progress: the steps that the ranks of an attempt have finished on this node, and the reports about them.

Promises: a step is reported once all ranks here have crossed it, at most every so often; its loss is the mean of the
newest steps of this attempt that have a finite one. While a step or a validation takes long, the newest step is
reported again as long as some rank computes.
"""

import math
from collections import deque

from tutti.contracts.scheduler.v1 import ReportProgressRequest
from tutti.contracts.trainer.v1 import Progress
from tutti.records.figures import NEWEST_STEPS, newest_loss

WORK_SECONDS = 30.0
"""Between two reports of a step that takes long."""


class StepProgress:
    """`seconds` between two reports. Times are monotonic seconds."""

    def __init__(self, job: str, epoch: int, node: str, *, seconds: float, now: float) -> None:
        self._report = ReportProgressRequest(job=job, epoch=epoch, node=node, loss=math.nan)
        self._seconds, self._told_at, self._worked = seconds, now, False
        self._waiting: dict[int, Progress] = {}
        self._losses = deque[float](maxlen=NEWEST_STEPS)

    def add(self, progress: Progress) -> None:
        """Take what one rank says of a step; all ranks say the same."""
        self._waiting[progress.step] = progress

    def worked(self) -> None:
        """Some rank computed something, without crossing a step."""
        self._worked = True

    def report(self, step: int, now: float, *, final: bool) -> ReportProgressRequest | None:
        """Return the report that is due when all ranks have crossed `step`; `final`: whatever was not told yet."""
        if not final and now - self._told_at < self._seconds:
            return None
        crossed = [self._waiting.pop(each) for each in sorted(self._waiting) if each <= step]
        again = self._worked and self._report.step > 0 and now - self._told_at >= WORK_SECONDS
        if not crossed and not again:
            return None
        for each in crossed:
            if each.HasField("bits_per_byte"):
                self._report.bits_per_byte = each.bits_per_byte
            self._losses.append(each.loss)
            if each.HasField("pace"):
                self._report.pace.CopyFrom(each.pace)
            self._report.step = each.step
            self._report.skipped, self._report.skipped_in_a_row = each.skipped, each.skipped_in_a_row
        mean, _ = newest_loss(self._losses)
        if mean is not None:
            self._report.loss = mean
        self._told_at, self._worked = now, False
        told = ReportProgressRequest()
        told.CopyFrom(self._report)
        return told
