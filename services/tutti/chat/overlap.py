"""The overlap of an answer with the training data: the spans of its text that occur there word for word.

Promises: an overlap is what lineage finds, on behalf of the user who asks; data that cannot be searched is named with
the reason. An overlap does not prove that a text had an influence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import NotFound, Refused, Unavailable
from tutti.chat.asking import Asking
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.lineage.v1 import Passage, TraceTextRequest
from tutti.contracts.lineage.v1.stubs import LineageServiceStub
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub

SECONDS = 8.0
MOST_SPANS, MOST_TRAININGS = 20, 16


@dataclass(frozen=True)
class Overlap:
    """The spans of a text in the training data of `checkpoint`, which is empty where none could be searched.

    `datasets` were searched, the `unindexed` ones of the same training were not; `unsearched` are later trainings, by
    the names of their checkpoints, with the reasons. With `truncated`, there are more and shorter spans. `missing` says
    which service did not answer.
    """

    checkpoint: str
    datasets: Sequence[str]
    unindexed: Sequence[str]
    unsearched: Sequence[tuple[str, str]]
    spans: Sequence[Passage]
    truncated: bool = False
    missing: str = ""


class Overlaps:
    """Asks `lineage` for spans, and `scheduler` for the checkpoint with which a training began."""

    def __init__(self, lineage: LineageServiceStub, scheduler: SchedulerServiceStub) -> None:
        self._lineage, self._scheduler = lineage, scheduler

    def of(self, checkpoint: str, text: str) -> Overlap:
        """The overlap of a text with the latest training behind a checkpoint that can be searched."""
        asking, unsearched = Asking(SECONDS), list[tuple[str, str]]()
        text = text.replace("\0", "\ufffd")  # a character that no request may have
        try:
            while checkpoint and len(unsearched) < MOST_TRAININGS:
                request = TraceTextRequest(text=text, within=checkpoint, limit=MOST_SPANS)
                try:
                    found = asking.ask("lineage", self._lineage.TraceText, request)
                except (NotFound, Refused) as error:
                    unsearched.append((checkpoint, str(error)))
                    checkpoint = self._before(asking, checkpoint)
                    continue
                searched = (found.datasets, found.unindexed)
                return Overlap(checkpoint, *searched, unsearched, found.passages, truncated=found.truncated)
        except Unavailable as error:
            return Overlap("", (), (), unsearched, (), missing=str(error))
        return Overlap("", (), (), unsearched, ())

    def _before(self, asking: Asking, checkpoint: str) -> str:
        """The checkpoint with which the training of another one began; empty where that is not recorded."""
        try:
            asked = GetRequest(name=f"jobs/{checkpoint.split('/')[1]}")
            job: Job = asking.ask("scheduler", self._scheduler.GetJob, asked)
        except NotFound:
            return ""
        return job.spec.initial
