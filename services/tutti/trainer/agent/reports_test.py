"""Reports: in order, repeated while nobody answers, dropped when refused for good; progress is replaced."""

from google.protobuf.message import Message

from tutti.backbone import ManualClock
from tutti.chassis.errors import StaleEpoch, Unavailable
from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_READY,
    RANK_EVENT_SPAWNED,
    ReportProgressRequest,
    ReportRankRequest,
)
from tutti.trainer.agent.backgroundcalls import InlineCalls
from tutti.trainer.agent.reports import Reports


class Control:
    def __init__(self) -> None:
        self.told: list[Message] = []
        self.error: Exception | None = None
        self.calls = 0

    def __call__(self, request: Message) -> object:
        self.calls += 1
        if self.error is not None:
            raise self.error
        self.told.append(request)
        return request


def drain(reports: Reports, background: InlineCalls, clock: ManualClock, turns: int = 50) -> None:
    for _ in range(turns):
        reports.step()
        background.deliver()
        clock.advance(0.1)


def test_reports_wait_in_order_while_the_control_plane_is_away() -> None:
    control, background, clock = Control(), InlineCalls(), ManualClock()
    reports = Reports("x", background, clock, control)
    control.error = Unavailable("away")
    for rank in range(3):
        reports.add(ReportRankRequest(rank=rank, step=rank))
    drain(reports, background, clock)
    assert len(reports) == 3
    assert 2 < control.calls < 20
    control.error = None
    drain(reports, background, clock)
    assert [each.rank for each in control.told if isinstance(each, ReportRankRequest)] == [0, 1, 2]


def test_ranks_to_which_the_same_happened_share_a_report_that_is_not_on_its_way() -> None:
    control, background, clock = Control(), InlineCalls(), ManualClock()
    reports = Reports("x", background, clock, control)
    for rank in range(4):
        reports.add(ReportRankRequest(rank=rank, event=RANK_EVENT_SPAWNED))
    reports.add(ReportRankRequest(rank=0, event=RANK_EVENT_READY))
    reports.add(ReportRankRequest(rank=1, event=RANK_EVENT_READY))
    drain(reports, background, clock)
    told = [each for each in control.told if isinstance(each, ReportRankRequest)]
    assert [(each.event, each.rank, list(each.more_ranks)) for each in told] == [
        (RANK_EVENT_SPAWNED, 0, []),
        (RANK_EVENT_SPAWNED, 1, [2, 3]),
        (RANK_EVENT_READY, 0, [1]),
    ]


def test_a_stale_report_is_dropped_and_told() -> None:
    control, background, clock = Control(), InlineCalls(), ManualClock()
    refused: list[Message] = []
    reports = Reports("x", background, clock, control, refused=lambda request, problem: refused.append(request))
    control.error = StaleEpoch("a newer one is open")
    reports.add(ReportRankRequest(rank=1))
    drain(reports, background, clock)
    assert (len(reports), len(refused)) == (0, 1)


def test_waiting_progress_is_replaced_but_never_moves_past_another_report() -> None:
    control, background, clock = Control(), InlineCalls(), ManualClock()
    reports = Reports("x", background, clock, control)
    reports.add(ReportRankRequest(rank=9))
    for step in (1, 2, 3):
        reports.add(ReportProgressRequest(job="jobs/x", epoch=1, step=step))
    reports.add(ReportRankRequest(rank=8))
    reports.add(ReportProgressRequest(job="jobs/x", epoch=1, step=4))
    drain(reports, background, clock)
    seen = [each.step if isinstance(each, ReportProgressRequest) else -each.rank for each in control.told]  # type: ignore[attr-defined]
    assert seen == [-9, 3, -8, 4]
