"""The Admin service: what the chassis answers for every service of this process.

Promises: a service is found by its name and a resource by its kind; one that is not here is named together with those
that are. What does not exist for the caller is neither watched, exported nor tailed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC
from typing import Any

from google.protobuf.descriptor_pool import Default as default_pool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from tutti.backbone import Isolation
from tutti.chassis.delivery import outbox
from tutti.chassis.delivery.outbox import Outgoing
from tutti.chassis.errors import InvalidField, NotFound, PermissionDenied, code_of
from tutti.chassis.events.sentences import sentence
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import references
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.health import Standing
from tutti.chassis.rpc.kinds import may_read
from tutti.chassis.rpc.required import limit_of
from tutti.chassis.rpc.verdict import examined
from tutti.chassis.rpc.watch import snapshots
from tutti.chassis.runtime.dependencies import dependency
from tutti.chassis.runtime.process import process_name
from tutti.chassis.service import Finding, PagesAt, Service
from tutti.chassis.store import audit, auditseals
from tutti.chassis.store.canonical import render
from tutti.chassis.store.chains import Difference
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import from_micros
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.version import VERSION
from tutti.chassis.work.leadership import Leader
from tutti.contracts.admin.v1 import (
    AcknowledgeAuditRequest,
    AcknowledgeAuditResponse,
    AuditDifference,
    AuditRecord,
    CheckBlobRequest,
    CheckBlobResponse,
    CopyDatabasesRequest,
    CopyDatabasesResponse,
    DeadLetter,
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
    ListChangesRequest,
    ListChangesResponse,
    ListDeadLettersRequest,
    ListDeadLettersResponse,
    RepublishEventsRequest,
    RepublishEventsResponse,
    Scrub,
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
from tutti.contracts.admin.v1.admin_pb2 import DESCRIPTOR
from tutti.upkeep import scrubber as scrubbing
from tutti.upkeep import scrubs
from tutti.upkeep.examination import Administered, Examination

admin_descriptor = DESCRIPTOR.services_by_name["Admin"]
TAIL_LIMIT, TAIL_MOST = 100, 10_000
TAIL_SECONDS = 0.25
STORES = ("event log", "blobs", "database")
AUDIT_LIMIT, AUDIT_MOST = 100, 10_000
Tailed = TailEventsResponse | None
AUDITED = tuple(field.name for field in fields(audit.Record) if field.name != "at")


class AdminApi:
    """`standing` is the health of a service; `pages` is where those with pages have them.

    `copies` makes copies of the databases of this process and returns their folder. Raises Refused. `preflight` tries
    what this process assumes of its machine and its stores.
    """

    def __init__(
        self,
        services: Sequence[Administered],
        standing: Callable[[str], Standing],
        examination: Examination,
        pages: Callable[[], PagesAt],
        copies: Callable[[], str],
        preflight: Callable[[], Sequence[Finding]],
        scrubber: scrubbing.Scrubber,
    ) -> None:
        self._pages, self._copies, self._preflight = pages, copies, preflight
        self._services = {each.service.name: each for each in services}
        self._owners: dict[str, tuple[Administered, Resource[Any]]] = {
            resource.kind: (each, resource) for each in services for resource in each.service.resources
        }
        self._standing, self._examination, self._scrubber = standing, examination, scrubber
        self._process = process_name()

    def Describe(self, request: DescribeRequest, call: Call) -> DescribeResponse:
        infos = [self._described(each) for _, each in sorted(self._services.items())]
        return DescribeResponse(version=VERSION, services=infos)

    def _described(self, each: Administered) -> DescribeResponse.ServiceInfo:
        name, leader = each.service.name, _leader(each)
        pages = self._pages() if each.service.pages is not None else PagesAt()
        standing = self._standing(name)
        told = DescribeResponse.ServiceInfo(
            name=name,
            ready=not standing.reason,
            reason=standing.reason,
            pages=pages.url,
            former_pages=pages.former,
            leader=leader.who,
            term=leader.term,
            process=self._process,
            findings=[_finding(name, finding) for finding in self._examination.seen(name)],
        )
        told.since.FromDatetime(standing.since)
        return told

    async def Watch(self, request: WatchRequest, call: Call) -> AsyncIterator[WatchResponse]:
        kind = request.name.partition("/")[0]
        if kind not in self._owners:
            raise InvalidField("name", seen=request.name, expected=f"a resource of {_list(self._owners)}")
        owner, resource = self._owners[kind]
        if not may_read(resource.message, call.principal.roles):
            raise PermissionDenied(f"{kind} are not read by {call.role.value}: their Get declares who may")
        async for response in snapshots(owner.host.units, resource, request, call.principal, owner.parts.hints):
            yield response

    def ListChanges(self, request: ListChangesRequest, call: Call) -> ListChangesResponse:
        each = self._find(request.service)
        return each.host.units.run(lambda unit: changes(unit, each.service), isolation=Isolation.READ_COMMITTED)

    def CheckBlob(self, request: CheckBlobRequest, call: Call) -> CheckBlobResponse:
        each = self._find(request.service)
        return references.check_blob(each.host.units, each.service, request, call)

    def Export(self, request: ExportRequest, call: Call) -> Iterator[ExportResponse]:
        each = self._find(request.service)

        def lines(unit: Unit) -> list[str]:
            who, exported = call.principal, each.service.export(unit)
            return list(render(line for line in exported if _is_whole(unit, each.service, line.name, who)))

        return (ExportResponse(line=line) for line in each.host.units.run(lines))

    def Doctor(self, request: DoctorRequest, call: Call) -> DoctorResponse:
        chosen = self._chosen(request.service)
        with ThreadPoolExecutor(len(chosen)) as pool:  # together they take no longer than one where a store is slow
            examinations = list(pool.map(lambda each: list(self._examine(each)), chosen))
        found = [
            _finding(each.service.name, finding)
            for each, findings in zip(chosen, examinations, strict=True)
            for finding in findings
        ]
        if not any(finding.check in STORES and not finding.ok for finding in found):  # or it would wait
            process = next(iter(self._services)) if len(self._services) == 1 else "platform"
            found += [_finding(process, each) for each in self._preflight()]
        return examined(found)

    def ListDeadLetters(self, request: ListDeadLettersRequest, call: Call) -> ListDeadLettersResponse:
        found = [letter for each in self._chosen(request.service) for letter in _letters(each)]
        return ListDeadLettersResponse(dead_letters=sorted(found, key=lambda letter: letter.died_at.ToNanoseconds()))

    def ListAuditRecords(self, request: ListAuditRecordsRequest, call: Call) -> ListAuditRecordsResponse:
        limit = limit_of(request, default=AUDIT_LIMIT, most=AUDIT_MOST)
        found, damaged = list[AuditRecord](), list[str]()
        for each in self._chosen(request.service):
            records, others = _records(each, limit)
            found += records
            damaged += others
        found.sort(key=lambda one: one.at.ToNanoseconds(), reverse=True)
        return ListAuditRecordsResponse(records=found, damaged=damaged)

    def VerifyAudit(self, request: VerifyAuditRequest, call: Call) -> VerifyAuditResponse:
        each = self._find(request.service)
        found = auditseals.verify(each.host.units, each.host.blobs, each.parts.retention.audit, request.head)
        return VerifyAuditResponse(
            **{name: getattr(found, name) for name in ("batches", "records", "unsealed", "head", "acknowledged")},
            service=request.service,
            problems=found.problems,
            differences=map(_difference, found.differences),
            differences_digest=auditseals.digest_of(found.differences),
        )

    def AcknowledgeAudit(self, request: AcknowledgeAuditRequest, call: Call) -> AcknowledgeAuditResponse:
        each = self._find(request.service)
        found = auditseals.acknowledge(
            each.host.units, each.host.blobs, each.parts.retention.audit, call.principal, request.differences_digest
        )
        return AcknowledgeAuditResponse(differences=map(_difference, found))

    def SettleDeadLetter(self, request: SettleDeadLetterRequest, call: Call) -> SettleDeadLetterResponse:
        each = self._find(request.service)
        if each.parts.consumer is None:
            raise NotFound(f"dead letter {request.event_id} of {request.service}, which consumes no events")
        return SettleDeadLetterResponse(freed=each.parts.consumer.settle(request.event_id, discard=request.discard))

    def RepublishEvents(self, request: RepublishEventsRequest, call: Call) -> RepublishEventsResponse:
        each = self._find(request.service)
        if not request.HasField("since"):
            raise InvalidField("since", seen="nothing", expected="the time since which events are sent again")
        since = request.since.ToDatetime(UTC)
        count = each.host.units.run(
            lambda unit: outbox.republish(unit, since, validate_only=request.validate_only),
            isolation=Isolation.READ_COMMITTED,
        )
        each.parts.relay.woken.set()
        return RepublishEventsResponse(events=count)

    async def TailEvents(self, request: TailEventsRequest, call: Call) -> AsyncIterator[TailEventsResponse]:
        each, who = self._find(request.service), call.principal
        limit = limit_of(request, default=TAIL_LIMIT, most=TAIL_MOST)
        after = await asyncio.to_thread(_sequence, each.host.units, request.after) if request.after else 0
        while True:
            rows = await asyncio.to_thread(_tail, each, after, limit, request.resource, who)
            for number, event in rows:
                after = number
                if event is not None:
                    yield event
            if not request.follow and not (request.after and rows):
                return
            if not rows:
                await asyncio.sleep(TAIL_SECONDS)

    def CopyDatabases(self, request: CopyDatabasesRequest, call: Call) -> CopyDatabasesResponse:
        return CopyDatabasesResponse(folder=self._copies())

    def StartScrub(self, request: StartScrubRequest, call: Call) -> StartScrubResponse:
        each = self._find(request.service)
        rate = request.bytes_per_second if request.HasField("bytes_per_second") else None
        response = StartScrubResponse()
        asked_at = each.host.units.run(lambda unit: scrubs.ask(unit, rate), isolation=Isolation.READ_COMMITTED)
        response.asked_at.FromDatetime(from_micros(asked_at))
        self._scrubber.wake()
        return response

    def GetScrub(self, request: GetScrubRequest, call: Call) -> GetScrubResponse:
        kept = self._kept(self._find(request.service))
        response = GetScrubResponse(service=request.service)
        for told, found in ((response.running, kept.running), (response.last, kept.last)):
            if found is not None:
                told.CopyFrom(_scrub(found))
        if due_at := kept.due_at(self._scrubber.every):
            response.due_at.FromDatetime(from_micros(due_at))
        return response

    def _kept(self, each: Administered) -> scrubs.Kept:
        return each.host.units.run(scrubs.read, isolation=Isolation.READ_COMMITTED)

    def _find(self, name: str) -> Administered:
        if name not in self._services:
            raise InvalidField("service", seen=name, expected=f"one of {_list(self._services)}")
        return self._services[name]

    def _chosen(self, name: str) -> list[Administered]:
        return [self._find(name)] if name else [each for _, each in sorted(self._services.items())]

    def _examine(self, each: Administered) -> Iterator[Finding]:
        found = list(self._examination.of(each))
        yield from found
        if any(finding.check == "database" and not finding.ok for finding in found):
            return
        try:
            damaged = [what for kind in each.service.resources for what in each.host.units.run(kind.damaged)]
        except Exception as error:
            yield dependency("database", f"{type(error).__name__}: {error}")
            return
        yield Finding(
            "rows", not damaged, "; ".join(damaged) or "every resource has the digest that it was written with"
        )
        yield scrubbing.finding(self._kept(each), self._scrubber.every)
        for check in each.service.checks:
            try:
                yield check()
            except Exception as error:
                name = getattr(check, "__name__", "check")
                yield Finding(name, False, f"the check itself failed: {type(error).__name__}: {error}")


def _finding(service: str, found: Finding) -> DoctorResponse.Finding:
    return DoctorResponse.Finding(service=service, check=found.check, ok=found.ok, message=found.message)


def _difference(found: Difference) -> AuditDifference:
    return AuditDifference(place=found.place, fits=found.fits, message=found.message)


def _scrub(found: scrubs.Scrub) -> Scrub:
    values = {name: getattr(found, name) for name in ("phase", "rows", "records", "blobs", "bytes", "unstated")}
    told = Scrub(
        **values,
        total_blobs=found.total,
        damaged=[each.message for each in found.damaged],
        more_damaged=found.more,
        repaired=found.repaired,
        bytes_per_second=found.rate,
    )
    told.began_at.FromDatetime(from_micros(found.began_at))
    if found.ended_at:
        told.ended_at.FromDatetime(from_micros(found.ended_at))
    return told


def _leader(each: Administered) -> Leader:
    leadership = each.parts.leadership
    return leadership.seen if leadership is not None else Leader("", 0, 0.0, here=False)


def _records(each: Administered, limit: int) -> tuple[list[AuditRecord], list[str]]:
    """The newest records of a service, and what is damaged among them."""
    found = []
    records, damaged = each.host.units.run(lambda unit: audit.listed(unit, limit))
    for record in records:
        values = {name: getattr(record, name) for name in AUDITED}
        told = AuditRecord(service=each.service.name, code=code_of(record.reason), **values)
        told.at.FromDatetime(record.at)
        found.append(told)
    return found, [f"{each.service.name}: {one}" for one in damaged]


def _letters(each: Administered) -> list[DeadLetter]:
    consumer = each.parts.consumer
    if consumer is None:
        return []
    found = []
    for letter in consumer.dead_letters():
        died_at = Timestamp()
        died_at.FromDatetime(letter.died_at)
        found.append(
            DeadLetter(
                service=each.service.name,
                group=letter.group,
                event_id=letter.id,
                type=letter.type,
                subject=letter.subject,
                error=letter.error or "",
                parked=letter.parked,
                died_at=died_at,
            )
        )
    return found


def _sequence(units: Units, event_id: str) -> int:
    found = units.run(lambda unit: outbox.sequence_of(unit, event_id), isolation=Isolation.READ_COMMITTED)
    if found is None:
        raise InvalidField("after", seen=event_id, expected="the id of an event of this service that is still kept")
    return found


def _tail(each: Administered, after: int, limit: int, subject: str, who: Principal) -> list[tuple[int, Tailed]]:
    """Return events by their numbers, and None for those whose resources the caller does not read."""

    def read(unit: Unit) -> list[tuple[int, Tailed]]:
        rows = outbox.tail(unit, after=after, limit=limit, subject=subject)
        exists = {name: _exists(unit, each.service, name, who) for name in {row.record.key for row in rows}}
        return [(row.seq, _tailed(unit, each.service, row, who) if exists[row.record.key] else None) for row in rows]

    return each.host.units.run(read, isolation=Isolation.READ_COMMITTED)


def _resource(service: Service, name: str) -> Resource[Any] | None:
    return next((each for each in service.resources if each.kind == name.partition("/")[0]), None)


def _exists(unit: Unit, service: Service, name: str, who: Principal) -> bool:
    """Return whether a caller reads what has a name; of other services' kinds, only those of no tenant."""
    resource = _resource(service, name)
    if resource is None:
        return who.is_machine or name.partition("/")[0] not in references.tenant_kinds()
    return may_read(resource.message, who.roles) and resource.exists_for(unit, name, who)


def _is_whole(unit: Unit, service: Service, name: str, who: Principal) -> bool:
    resource = _resource(service, name)
    return _exists(unit, service, name, who) and (resource is None or resource.is_whole_for(unit, name, who))


def _tailed(unit: Unit, service: Service, row: Outgoing, who: Principal) -> TailEventsResponse:
    made_at, message = Timestamp(), _message(row.type, row.record.value)
    resource = _resource(service, row.record.key)
    if message is not None and resource is not None and isinstance(message, resource.message):
        message = resource.view(unit, message, who)
    made_at.FromDatetime(row.made_at)
    return TailEventsResponse(
        id=row.id,
        type=row.type,
        topic=row.record.topic,
        subject=row.record.key,
        revision=row.revision,
        time=made_at,
        payload=MessageToJson(message, preserving_proto_field_name=True, indent=None) if message else "",
        sentence=sentence(row.record.key, row.type, message),
        published=row.sent,
    )


def _message(type_name: str, payload: bytes) -> Message | None:
    try:
        return GetMessageClass(default_pool().FindMessageTypeByName(type_name)).FromString(payload)
    except (KeyError, DecodeError):
        return None


def changes(unit: Unit, service: Service) -> ListChangesResponse:
    """Return the number of changes of each kind of a service, by plural."""
    return ListChangesResponse(changes={each.kind: each.changes(unit) for each in service.resources})


def _list(names: Sequence[str] | dict[str, Any]) -> str:
    return ", ".join(sorted(names)) or "nothing"
