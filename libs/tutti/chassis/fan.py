"""Admin of a whole platform: each question goes to the service that can answer, or to all.

Promises: the answers of services behind one address are asked for once; one that is not reachable raises Unreachable.
"""

from collections.abc import Callable, Iterator, Mapping

from tutti.chassis.channel import RpcChannel, Unreachable
from tutti.chassis.errors import InvalidField
from tutti.contracts.admin.v1 import (
    DescribeRequest,
    DescribeResponse,
    DoctorRequest,
    DoctorResponse,
    ExportRequest,
    ExportResponse,
    ListDeadLettersRequest,
    ListDeadLettersResponse,
    RepublishEventsRequest,
    RepublishEventsResponse,
    SettleDeadLetterRequest,
    SettleDeadLetterResponse,
    TailEventsRequest,
    TailEventsResponse,
    WatchRequest,
    WatchResponse,
)
from tutti.contracts.admin.v1.stubs import AdminStub


class AdminFan:
    """The methods of the Admin stub; `owners` maps the first segment of a name to its service."""

    def __init__(
        self, channel: Callable[[str], RpcChannel], address: Callable[[str], str], owners: Mapping[str, str]
    ) -> None:
        self._channel, self._address, self._owners = channel, address, owners

    def Describe(self, request: DescribeRequest, timeout: float | None = None) -> DescribeResponse:
        answers = [stub.Describe(request, timeout=timeout) for stub in self._all()]
        services = sorted((each for answer in answers for each in answer.services), key=lambda each: each.name)
        return DescribeResponse(version=answers[0].version, services=services)

    def Doctor(self, request: DoctorRequest, timeout: float | None = None) -> DoctorResponse:
        stubs = self._chosen(request.service)
        return DoctorResponse(
            findings=[each for stub in stubs for each in stub.Doctor(request, timeout=timeout).findings]
        )

    def ListDeadLetters(self, request: ListDeadLettersRequest, timeout: float | None = None) -> ListDeadLettersResponse:
        stubs = self._chosen(request.service)
        found = [each for stub in stubs for each in stub.ListDeadLetters(request, timeout=timeout).dead_letters]
        return ListDeadLettersResponse(dead_letters=sorted(found, key=lambda each: each.died_at.ToNanoseconds()))

    def SettleDeadLetter(
        self, request: SettleDeadLetterRequest, timeout: float | None = None
    ) -> SettleDeadLetterResponse:
        return self._of(request.service).SettleDeadLetter(request, timeout=timeout)

    def RepublishEvents(self, request: RepublishEventsRequest, timeout: float | None = None) -> RepublishEventsResponse:
        return self._of(request.service).RepublishEvents(request, timeout=timeout)

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

    def _chosen(self, service: str) -> list[AdminStub]:
        return [self._of(service)] if service else self._all()

    def _all(self) -> list[AdminStub]:
        """One an address. Raises Unreachable when no service has one."""
        found: dict[str, str] = {}
        missing: list[Unreachable] = []
        for service in sorted(set(self._owners.values()) | {"lineage"}):
            try:
                found.setdefault(self._address(service), service)
            except Unreachable as error:
                missing.append(error)
        if not found:
            raise missing[0]
        return [self._of(service) for service in found.values()]
