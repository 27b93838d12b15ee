"""Reports of an agent to the scheduler, the committer and sampling, each delivered in order."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from tutti.backbone.clock import Clock
from tutti.chassis.errors import Problem
from tutti.chassis.telemetry import span_from
from tutti.contracts.committer.v1 import ReportShardRequest, ReportVerificationRequest
from tutti.contracts.sampling.v1 import ReportExperienceRequest
from tutti.contracts.scheduler.v1 import (
    HeartbeatRequest,
    ReportProgressRequest,
    ReportRankRequest,
    ReportReleasedRequest,
    ReportStallRequest,
)
from tutti.contracts.trainer.v1 import ExperienceStored, Lost, Stored, Verified
from tutti.trainer.agent.ports import BackgroundCalls, CommitterApi, SamplingApi, SchedulerApi
from tutti.trainer.agent.reports import Reports


class Reporting:
    """Queues of reports by service. `trace` returns the trace of an epoch of a job, "" for none."""

    def __init__(
        self,
        node: str,
        background: BackgroundCalls,
        clock: Clock,
        *,
        scheduler: SchedulerApi,
        committer: CommitterApi,
        sampling: SamplingApi,
        trace: Callable[[str, int], str],
        answered: Callable[[Message, object], None],
        refused: Callable[[Any, Problem], None],
        experience_told: Callable[[Any, object], None],
    ) -> None:
        self._node, self._trace = node, trace
        self._scheduler, self._committer, self._sampling = scheduler, committer, sampling
        self.scheduler = Reports("reports", background, clock, self._to_scheduler, answered=answered, refused=refused)
        self.committer = Reports("shards", background, clock, self._to_committer)
        self.sampling = Reports(
            "experiences", background, clock, self._to_sampling, answered=experience_told, refused=experience_told
        )

    def step(self) -> bool:
        """Deliver what can be delivered now; return true if anything happened."""
        return self.scheduler.step() | self.committer.step() | self.sampling.step()

    def _to_scheduler(self, request: Any) -> object:
        if isinstance(request, HeartbeatRequest):
            return self._scheduler.Heartbeat(request)
        with span_from(self._trace(request.job, request.epoch), f"{self._node} reports"):
            match request:
                case ReportRankRequest():
                    return self._scheduler.ReportRank(request)
                case ReportProgressRequest():
                    return self._scheduler.ReportProgress(request)
                case ReportStallRequest():
                    return self._scheduler.ReportStall(request)
                case ReportReleasedRequest():
                    return self._scheduler.ReportReleased(request)
        raise TypeError(type(request).__name__)

    def _to_committer(self, request: Message) -> object:
        if isinstance(request, ReportShardRequest):
            with span_from(self._trace(request.job, request.epoch), f"{self._node} reports"):
                return self._committer.ReportShard(request)
        assert isinstance(request, ReportVerificationRequest)
        return self._committer.ReportVerification(request)

    def _to_sampling(self, request: Message) -> object:
        assert isinstance(request, ReportExperienceRequest)
        return self._sampling.ReportExperience(request)


def shard(told: Stored | Lost, node: str) -> ReportShardRequest:
    """Return the report of a shard for the committer: where its report blob is, or why there will be none."""
    request = ReportShardRequest(
        job=told.job, line=told.line, step=told.step, epoch=told.epoch, rank=told.rank, node=node
    )
    if isinstance(told, Lost):
        request.error = told.error
    else:
        request.report_key, request.report_digest = told.report_key, told.report_digest
    return request


def verification(told: Verified, *, node: str, process: str) -> ReportVerificationRequest:
    """Return the report of a verification for the committer."""
    return ReportVerificationRequest(
        verification=told.verification, claim=told.claim, node=node, process=process, error=told.error
    )


def experience(stored: ExperienceStored, node: str) -> ReportExperienceRequest:
    """Return the report of a stored experience for sampling."""
    name = stored.name
    return ReportExperienceRequest(
        job=name.job,
        line=name.line,
        iteration=name.iteration,
        key=stored.key,
        digest=name.digest,
        checkpoint=stored.checkpoint,
        node=node,
        epoch=stored.epoch,
    )
