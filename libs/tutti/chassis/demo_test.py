"""A small service for the tests of the chassis: it plays `ingest` through the real contracts.

Promises: nothing of its own; what it does beyond create, get and list is there to be caught by a test.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, String, Table, select

from tutti.backbone.database import DatabaseDamaged
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import load
from tutti.chassis.errors import NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.service import Finding, Host, Served, Service
from tutti.chassis.store import crud
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import STATE_PENDING, STATE_RUNNING, CancelRequest, GetRequest, ListRequest
from tutti.contracts.ingest.v1 import (
    Classifier,
    Crawl,
    CreateClassifierRequest,
    CreateClassifierResponse,
    CreateCrawlRequest,
    CreateCrawlResponse,
    CreateFilterRequest,
    CreateFilterResponse,
    CreateIngestRequest,
    CreateIngestResponse,
    CreateRetractionRequest,
    CreateRetractionResponse,
    DigestInputRequest,
    DigestInputResponse,
    Filter,
    FindRetractedRequest,
    FindRetractedResponse,
    Ingest,
    IngestSpec,
    ListClassifiersResponse,
    ListCrawledPagesRequest,
    ListCrawledPagesResponse,
    ListCrawlsResponse,
    ListFiltersResponse,
    ListIngestsResponse,
    ListRetractionsResponse,
    Retraction,
    ShowCrawlRequest,
    ShowCrawlResponse,
    WithdrawRetractionRequest,
)
from tutti.contracts.ingest.v1.ingest_pb2 import DESCRIPTOR
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.platform.host import HostProcess

T = TypeVar("T")


def process_id() -> int:
    return os.getpid()


def temporary_folder() -> str:
    return tempfile.gettempdir()


class DemoApi:
    def __init__(self, host: Host, resource: Resource[Ingest], notes: Table) -> None:
        self._host, self._resource, self._notes = host, resource, notes
        self.release = threading.Event()

    def CreateIngest(self, request: CreateIngestRequest, call: Call) -> CreateIngestResponse:
        def work(unit: Unit) -> Ingest:
            return self._resource.create(
                unit, Ingest(name=request.name, spec=request.spec, state=STATE_PENDING), request
            )

        return CreateIngestResponse(ingest=self._host.units.run(work))

    def GetIngest(self, request: GetRequest, call: Call) -> Ingest:
        if request.name == "ingests/damaged":
            raise DatabaseDamaged("ingest.db: a page is damaged; restore it from a backup")
        if request.name == "ingests/defect":
            raise RuntimeError("the secret of the defect")
        return crud.get(self._host.units, self._resource, request, call.principal)

    def ListIngests(self, request: ListRequest, call: Call) -> ListIngestsResponse:
        if request.filter == "wait":
            self.release.wait(30)
            return ListIngestsResponse()
        return crud.list_page(self._host.units, self._resource, request, ListIngestsResponse, call.principal)

    def CancelIngest(self, request: CancelRequest, call: Call) -> Ingest:
        """Not a cancel: moves the resource on, so that watches have something to see."""

        def work(unit: Unit) -> Ingest:
            ingest = self._resource.lock(unit, request.name)
            ingest.state, ingest.reason = STATE_RUNNING, request.request_id
            return self._resource.put(unit, ingest)

        return self._host.units.run(work)

    def CreateCrawl(self, request: CreateCrawlRequest, call: Call) -> CreateCrawlResponse:
        raise NotFound(request.name)

    def GetCrawl(self, request: GetRequest, call: Call) -> Crawl:
        raise NotFound(request.name)

    def ListCrawls(self, request: ListRequest, call: Call) -> ListCrawlsResponse:
        return ListCrawlsResponse()

    def CancelCrawl(self, request: CancelRequest, call: Call) -> Crawl:
        if request.name == "crawls/wait":
            self.release.wait(30)
        raise NotFound(request.name)

    def ListCrawledPages(self, request: ListCrawledPagesRequest, call: Call) -> ListCrawledPagesResponse:
        raise NotFound(request.name)

    def ShowCrawl(self, request: ShowCrawlRequest, call: Call) -> ShowCrawlResponse:
        raise NotFound(request.name)

    def CreateFilter(self, request: CreateFilterRequest, call: Call) -> CreateFilterResponse:
        raise NotFound(request.name)

    def GetFilter(self, request: GetRequest, call: Call) -> Filter:
        raise NotFound(request.name)

    def ListFilters(self, request: ListRequest, call: Call) -> ListFiltersResponse:
        return ListFiltersResponse()

    def CancelFilter(self, request: CancelRequest, call: Call) -> Filter:
        raise NotFound(request.name)

    def CreateRetraction(self, request: CreateRetractionRequest, call: Call) -> CreateRetractionResponse:
        raise NotFound(request.spec.source)

    def GetRetraction(self, request: GetRequest, call: Call) -> Retraction:
        raise NotFound(request.name)

    def ListRetractions(self, request: ListRequest, call: Call) -> ListRetractionsResponse:
        return ListRetractionsResponse()

    def WithdrawRetraction(self, request: WithdrawRetractionRequest, call: Call) -> Retraction:
        if request.name == "retractions/defect":
            raise RuntimeError("the secret of the defect")
        raise NotFound(request.name)

    def CreateClassifier(self, request: CreateClassifierRequest, call: Call) -> CreateClassifierResponse:
        return CreateClassifierResponse()

    def GetClassifier(self, request: GetRequest, call: Call) -> Classifier:
        return Classifier()

    def ListClassifiers(self, request: ListRequest, call: Call) -> ListClassifiersResponse:
        return ListClassifiersResponse()

    def CancelClassifier(self, request: CancelRequest, call: Call) -> Classifier:
        return Classifier()

    def FindRetracted(self, request: FindRetractedRequest, call: Call) -> FindRetractedResponse:
        return FindRetractedResponse()

    def DigestInput(self, request: DigestInputRequest, call: Call) -> DigestInputResponse:
        """The process id of a worker of the pool, as text."""
        return DigestInputResponse(input_digest=str(self._host.pool.run(process_id)))


class Beat:
    """A loop that says how often it stepped."""

    name = "demo beat"
    interval = 0.05

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> bool:
        self.steps += 1
        if self.steps == 3 and os.environ.get("DEMO_BLOCKS"):
            time.sleep(0.6)
        return False


def build(host: Host) -> Service:
    resource = Resource(host.metadata, "ingests", Ingest, {"state": lambda message: message.state})
    notes = Table("notes", host.metadata, Column("text", String, primary_key=True))

    def export(unit: Unit) -> Iterable[CanonicalLine]:
        for ingest in resource.select(unit):
            yield CanonicalLine(ingest.name, {"input": ingest.spec.input_path})

    def check() -> Finding:
        count = host.units.run(lambda unit: len(unit.tx.execute(select(notes)).all()))
        return Finding("notes", count == 0, f"{count} notes")

    return Service(
        name="ingest",
        resources=[resource],
        tables=[notes],
        serves=[Served(DESCRIPTOR.services_by_name["IngestService"], DemoApi(host, resource, notes))],
        loops=[Beat()],
        export=export,
        checks=[check],
    )


@dataclass(frozen=True)
class Demo:
    """A running host with the demo service, and ways to call it."""

    host: HostProcess
    data_dir: DataDir

    def channel(self, role: Role = Role.ENGINEER, **options: Any) -> RpcChannel:
        return RpcChannel(lambda: self.host.address, token=self.data_dir.tokens().of(role), **options)

    def ingest(self, role: Role = Role.ENGINEER) -> IngestServiceStub:
        return IngestServiceStub(self.channel(role))

    def create(self, name: str) -> Ingest:
        request = CreateIngestRequest(name=name, request_id=f"make {name}", spec=IngestSpec(input_path="/pages"))
        created: Ingest = self.ingest().CreateIngest(request).ingest
        return created

    def change(self, name: str, reason: str) -> Ingest:
        changed: Ingest = self.ingest().CancelIngest(CancelRequest(name=name, request_id=reason))
        return changed


@contextmanager
def running(path: Path, *overrides: str) -> Iterator[Demo]:
    data_dir = DataDir(path)
    host = HostProcess({"ingest": build}, data_dir, load(environment={}, overrides=overrides, services=["ingest"]))
    host.start()
    try:
        yield Demo(host, data_dir)
    finally:
        host.stop()


def eventually(condition: Callable[[], T | None], seconds: float = 240.0) -> T:
    """What the condition returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not true after {seconds} s"
        time.sleep(0.01)
    return found
