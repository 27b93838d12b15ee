"""The reports that wait for the control plane: in order, repeated until they are taken or refused for good.

Progress that was not told yet is replaced by newer progress; ranks to which the same happened share a report;
everything else is told.
"""

import logging
from collections import deque
from collections.abc import Callable

from google.protobuf.message import Message

from tutti.backbone.backoff import Backoff
from tutti.backbone.clock import Clock
from tutti.chassis.errors import Problem, is_transient
from tutti.contracts.scheduler.v1 import ReportProgressRequest, ReportRankRequest
from tutti.trainer.agent import measures
from tutti.trainer.agent.ports import BackgroundCalls

log = logging.getLogger(__name__)

_BACKOFF = Backoff(0.1, 3.0)
Call = Callable[[Message], object]


class Reports:
    """One lane of calls. `call` makes the one that fits a request."""

    def __init__(
        self,
        lane: str,
        background: BackgroundCalls,
        clock: Clock,
        call: Call,
        *,
        answered: Callable[[Message, object], None] = lambda request, answer: None,
        refused: Callable[[Message, Problem], None] = lambda request, problem: None,
    ) -> None:
        self._lane, self._background, self._clock, self._call = lane, background, clock, call
        self._answered, self._refused = answered, refused
        self._waiting: deque[Message] = deque()
        self._retry_at, self._failures = 0.0, 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Message) -> None:
        if isinstance(request, ReportRankRequest) and len(self._waiting) > 1:  # the first may be on its way
            last = self._waiting[-1]
            if isinstance(last, ReportRankRequest) and _about(last) == _about(request):
                last.more_ranks.append(request.rank)
                return
        if isinstance(request, ReportProgressRequest):
            for index in range(len(self._waiting) - 1, 0, -1):
                older = self._waiting[index]
                if isinstance(older, ReportProgressRequest) and (older.job, older.epoch) == (
                    request.job,
                    request.epoch,
                ):
                    self._waiting[index] = request
                    return
                if not isinstance(older, ReportProgressRequest):
                    break
        self._waiting.append(request)

    def step(self) -> bool:
        """Send the oldest, if none is on its way."""
        if not self._waiting or self._background.busy(self._lane) or self._clock.monotonic() < self._retry_at:
            return False
        request = self._waiting[0]
        self._background.send(self._lane, lambda: self._call(request), lambda answer: self._done(request, answer))
        return True

    def _done(self, request: Message, answer: object) -> None:
        if isinstance(answer, Exception) and is_transient(answer):
            self._failures += 1
            self._retry_at = self._clock.monotonic() + _BACKOFF.longest(self._failures)
            measures.retries.labels(self._lane).inc()
            return
        self._failures, self._retry_at = 0, 0.0
        self._waiting.popleft()
        if isinstance(answer, Problem):
            log.info("%s was refused: %s", type(request).__name__, answer)
            self._refused(request, answer)
        elif isinstance(answer, Exception):
            log.error("%s failed", type(request).__name__, exc_info=answer)
        else:
            self._answered(request, answer)


def _about(request: ReportRankRequest) -> ReportRankRequest:
    """The report without the ranks that it is about."""
    same = ReportRankRequest()
    same.CopyFrom(request)
    same.ClearField("rank")
    same.ClearField("more_ranks")
    return same
