"""Admin of a whole platform: each question goes to the service that can answer, or to all.

Promises: the answers of services behind one address are asked for once; no service is left out in silence: one that is
not reachable raises Unreachable, is described as not ready, or is a finding of the doctor.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.channel import Unreachable
from tutti.chassis.rpc.kinds import every_service
from tutti.chassis.rpc.verdict import examined
from tutti.contracts.admin.v1 import (
    AcknowledgeAuditRequest,
    AcknowledgeAuditResponse,
    CopyDatabasesRequest,
    CopyDatabasesResponse,
    DescribeRequest,
    DescribeResponse,
    DoctorRequest,
    DoctorResponse,
    ExportRequest,
    ExportResponse,
    GetScrubRequest,
    GetScrubResponse,
    ListAuditRecordsRequest,
    ListAuditRecordsResponse,
    ListDeadLettersRequest,
    ListDeadLettersResponse,
    RepublishEventsRequest,
    RepublishEventsResponse,
    SettleDeadLetterRequest,
    SettleDeadLetterResponse,
    StartScrubRequest,
    StartScrubResponse,
    TailEventsRequest,
    TailEventsResponse,
    VerifyAuditRequest,
    VerifyAuditResponse,
    WatchRequest,
    WatchResponse,
)
from tutti.contracts.admin.v1.stubs import AdminStub

T = TypeVar("T")


@dataclass
class _Doors:
    """The services of a platform, by the address where they answer; of those without one, what was said of it."""

    open: dict[str, list[str]] = field(default_factory=dict)
    shut: dict[str, Unreachable] = field(default_factory=dict)


class AdminFan:
    """The methods of the Admin stub; `owners` maps the first segment of a name to its service."""

    def __init__(
        self, channel: Callable[[str], grpc.Channel], address: Callable[[str], str], owners: Mapping[str, str]
    ) -> None:
        self._channel, self._address, self._owners = channel, address, owners

    def Describe(self, request: DescribeRequest, timeout: float | None = None) -> DescribeResponse:
        """Return every service; one without an address is not ready. Raises Unreachable if one does not answer."""
        doors = self._doors()
        answers = list(self._asked(doors, lambda stub: stub.Describe(request, timeout=timeout)))
        services = [each for answer in answers for each in answer.services]
        services += [
            DescribeResponse.ServiceInfo(name=name, reason=error.message) for name, error in doors.shut.items()
        ]
        return DescribeResponse(version=answers[0].version, services=sorted(services, key=lambda each: each.name))

    def Doctor(self, request: DoctorRequest, timeout: float | None = None) -> DoctorResponse:
        """Findings of every service; that one cannot be asked is a finding. Raises Unreachable when none can."""
        if request.service:
            return self._of(request.service).Doctor(request, timeout=timeout)
        doors = self._doors()
        findings: list[DoctorResponse.Finding] = []
        for services in doors.open.values():
            try:
                findings += self._of(services[0]).Doctor(request, timeout=timeout).findings
            except Unreachable as error:
                doors.shut.update(dict.fromkeys(services, error))
        if not findings:
            raise next(iter(doors.shut.values()))
        findings += [
            DoctorResponse.Finding(service=name, check="address", message=error.message)
            for name, error in sorted(doors.shut.items())
        ]
        return examined(findings)

    def ListDeadLetters(self, request: ListDeadLettersRequest, timeout: float | None = None) -> ListDeadLettersResponse:
        """Dead letters of all services, oldest first. Raises Unreachable, which names a service that did not answer."""
        if request.service:
            return self._of(request.service).ListDeadLetters(request, timeout=timeout)
        doors = self._doors()
        if doors.shut:
            raise next(iter(doors.shut.values()))
        answers = self._asked(doors, lambda stub: stub.ListDeadLetters(request, timeout=timeout))
        found = [each for answer in answers for each in answer.dead_letters]
        return ListDeadLettersResponse(dead_letters=sorted(found, key=lambda each: each.died_at.ToNanoseconds()))

    def ListAuditRecords(
        self, request: ListAuditRecordsRequest, timeout: float | None = None
    ) -> ListAuditRecordsResponse:
        """Audit records of all services, newest first. Raises Unreachable, which names a service that did not
        answer.
        """
        if request.service:
            return self._of(request.service).ListAuditRecords(request, timeout=timeout)
        doors = self._doors()
        if doors.shut:
            raise next(iter(doors.shut.values()))
        answers = self._asked(doors, lambda stub: stub.ListAuditRecords(request, timeout=timeout))
        found = [each for answer in answers for each in answer.records]
        found.sort(key=lambda each: each.at.ToNanoseconds(), reverse=True)
        return ListAuditRecordsResponse(records=found, damaged=[each for answer in answers for each in answer.damaged])

    def VerifyAudit(self, request: VerifyAuditRequest, timeout: float | None = None) -> VerifyAuditResponse:
        """Raises Unreachable."""
        return self._of(request.service).VerifyAudit(request, timeout=timeout)

    def AcknowledgeAudit(
        self, request: AcknowledgeAuditRequest, timeout: float | None = None
    ) -> AcknowledgeAuditResponse:
        """Raises Unreachable."""
        return self._of(request.service).AcknowledgeAudit(request, timeout=timeout)

    def StartScrub(self, request: StartScrubRequest, timeout: float | None = None) -> StartScrubResponse:
        """Raises Unreachable."""
        return self._of(request.service).StartScrub(request, timeout=timeout)

    def GetScrub(self, request: GetScrubRequest, timeout: float | None = None) -> GetScrubResponse:
        """Raises Unreachable."""
        return self._of(request.service).GetScrub(request, timeout=timeout)

    def SettleDeadLetter(
        self, request: SettleDeadLetterRequest, timeout: float | None = None
    ) -> SettleDeadLetterResponse:
        return self._of(request.service).SettleDeadLetter(request, timeout=timeout)

    def RepublishEvents(self, request: RepublishEventsRequest, timeout: float | None = None) -> RepublishEventsResponse:
        return self._of(request.service).RepublishEvents(request, timeout=timeout)

    def CopyDatabases(self, request: CopyDatabasesRequest, timeout: float | None = None) -> CopyDatabasesResponse:
        """Copy the databases of the one process that has all services. Raises Refused if there are several."""
        return next(iter(self._asked(self._doors(), lambda stub: stub.CopyDatabases(request, timeout=timeout))))

    def Export(self, request: ExportRequest, timeout: float | None = None) -> Iterator[ExportResponse]:
        return self._of(request.service).Export(request, timeout=timeout)

    def TailEvents(self, request: TailEventsRequest, timeout: float | None = None) -> Iterator[TailEventsResponse]:
        return self._of(request.service).TailEvents(request, timeout=timeout)

    def Watch(self, request: WatchRequest, timeout: float | None = None) -> Iterator[WatchResponse]:
        kind = request.name.partition("/")[0]
        if kind not in self._owners:
            known = ", ".join(sorted(self._owners))
            raise InvalidField("name", seen=request.name, expected=f"a resource of {known}")
        return self._of(self._owners[kind]).Watch(request, timeout=timeout)

    def _of(self, service: str) -> AdminStub:
        return AdminStub(self._channel(service))

    def _doors(self) -> _Doors:
        """Raises Unreachable when no service has an address."""
        doors = _Doors()
        for service in every_service():
            try:
                doors.open.setdefault(self._address(service), []).append(service)
            except Unreachable as error:
                doors.shut[service] = error
        if not doors.open:
            raise next(iter(doors.shut.values()))
        return doors

    def _asked(self, doors: _Doors, ask: Callable[[AdminStub], T]) -> Iterator[T]:
        """One answer an address. Raises Unreachable, which names the services of an address where nobody answers."""
        for services in doors.open.values():
            try:
                yield ask(self._of(services[0]))
            except Unreachable as error:
                if len(doors.open) == 1:
                    raise
                raise Unreachable(f"{', '.join(services)}: {error.message}") from None
