"""The server and its channel, over loopback: who gets in, what comes out."""

import contextlib
import logging
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tutti.chassis import telemetry
from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.connections import connection
from tutti.chassis.delivery import outbox
from tutti.chassis.demo_test import Demo, DemoApi, eventually, running
from tutti.chassis.errors import (
    AlreadyExists,
    CorruptDatabase,
    DeadlineExceeded,
    Internal,
    InvalidField,
    NotFound,
    PermissionDenied,
    Problem,
    TooLarge,
    Unauthenticated,
)
from tutti.chassis.identity.auth import Role, Tokens
from tutti.chassis.rpc.addresses import FORWARDED, signed
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.channel import RpcChannel, Unreachable
from tutti.chassis.rpc.health import Health
from tutti.chassis.rpc.methods import BadService
from tutti.chassis.rpc.references import Guarded
from tutti.chassis.rpc.server import CannotListen, RpcServer
from tutti.chassis.service import Served
from tutti.chassis.store import audit
from tutti.contracts.admin.v1 import ExportRequest
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.ingest.v1 import CreateIngestRequest, IngestSpec, WithdrawRetractionRequest
from tutti.contracts.ingest.v1.ingest_pb2 import DESCRIPTOR
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.contracts.pipeline.v1 import (
    CheckRecipeRequest,
    CheckRecipeResponse,
    CreateRunRequest,
    CreateRunResponse,
    ListRecipeFilesRequest,
    ListRecipeFilesResponse,
    Run,
)
from tutti.contracts.pipeline.v1.pipeline_pb2 import DESCRIPTOR as PIPELINE_DESCRIPTOR
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub

INGEST = DESCRIPTOR.services_by_name["IngestService"]
PIPELINE = PIPELINE_DESCRIPTOR.services_by_name["PipelineService"]


def demo_api(demo: Demo) -> DemoApi:
    """The API of the demo behind its guard."""
    guarded = demo.host.services[0].service.serves[0].api
    assert isinstance(guarded, Guarded)
    assert isinstance(guarded.api, DemoApi)
    return guarded.api


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(tmp_path_factory.mktemp("server")) as made:
        yield made


def test_what_was_created_is_returned(demo: Demo) -> None:
    demo.create("ingests/a")
    assert demo.ingest().GetIngest(GetRequest(name="ingests/a")).spec.input_path == "/pages"


def test_problems_come_back_as_themselves(demo: Demo) -> None:
    demo.create("ingests/b")
    with pytest.raises(NotFound) as missing:
        demo.ingest().GetIngest(GetRequest(name="ingests/none"))
    assert missing.value.name == "ingests/none"
    with pytest.raises(InvalidField) as empty:
        demo.ingest().GetIngest(GetRequest())
    assert empty.value.field == "name"
    other = CreateIngestRequest(name="ingests/b", request_id="make ingests/b", spec=IngestSpec(input_path="/other"))
    with pytest.raises(AlreadyExists) as exists:
        demo.ingest().CreateIngest(other)
    assert exists.value.ours != exists.value.theirs


def test_any_grpc_client_finds_the_field_in_the_status(demo: Demo) -> None:
    token = demo.data_dir.tokens().of(Role.ENGINEER)
    with connection(demo.host.address) as plain, pytest.raises(grpc.RpcError) as caught:
        IngestServiceStub(plain).GetIngest(GetRequest(), metadata=(("authorization", f"Bearer {token}"),))
    assert isinstance(caught.value, grpc.Call)
    status = rpc_status.from_call(caught.value)
    assert status is not None
    info, bad = ErrorInfo(), BadRequest()
    status.details[0].Unpack(info)
    status.details[1].Unpack(bad)
    assert (info.reason, info.domain, bad.field_violations[0].field) == ("INVALID_FIELD", "tutti", "name")


def test_without_a_token_or_with_another_nobody_gets_in(demo: Demo) -> None:
    with connection(demo.host.address) as plain, pytest.raises(grpc.RpcError) as caught:
        IngestServiceStub(plain).GetIngest(GetRequest(name="ingests/a"))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with RpcChannel(lambda: demo.host.address, token=secrets.token_hex()) as channel, pytest.raises(Unauthenticated):
        IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a"))


def test_a_role_that_the_method_does_not_declare_is_refused(demo: Demo) -> None:
    with pytest.raises(PermissionDenied, match=r"engineer, operator, service, not by agent"):
        demo.ingest(Role.AGENT).CreateIngest(CreateIngestRequest())
    with pytest.raises(PermissionDenied):
        list(AdminStub(demo.channel(Role.AGENT)).Export(ExportRequest(service="ingest")))


@pytest.mark.parametrize("megabytes", [5, 9])
def test_a_request_that_is_too_large_is_refused_by_either_side(demo: Demo, megabytes: int) -> None:
    request = CreateIngestRequest(name="x" * (megabytes << 20))
    with pytest.raises(TooLarge, match="by blob"):
        demo.ingest().CreateIngest(request)
    careless = IngestServiceStub(demo.channel(max_message_bytes=1 << 30))
    with pytest.raises(TooLarge, match="by blob"):
        careless.CreateIngest(request)


def test_bytes_that_are_no_message_are_refused(demo: Demo) -> None:
    token = demo.data_dir.tokens().of(Role.ENGINEER)
    with connection(demo.host.address) as plain:
        call: Any = plain.unary_unary("/tutti.ingest.v1.IngestService/GetIngest")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff", metadata=(("authorization", f"Bearer {token}"),))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_text_that_no_database_stores_is_refused(demo: Demo) -> None:
    with pytest.raises(InvalidField) as caught:
        demo.ingest().GetIngest(GetRequest(name="ingests/a\0b"))
    assert caught.value.field == "name"
    assert "NUL" in str(caught.value)


def test_a_damaged_database_is_named_and_is_no_defect(demo: Demo) -> None:
    with pytest.raises(CorruptDatabase, match="from a backup"):
        demo.ingest().GetIngest(GetRequest(name="ingests/damaged"))


def test_a_defect_is_an_incident_in_the_log_and_no_traceback(demo: Demo, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(Internal) as caught:
        demo.ingest().GetIngest(GetRequest(name="ingests/defect"))
    incident = caught.value.metadata["incident"]
    assert "secret" not in str(caught.value)
    assert any(incident in record.getMessage() and record.exc_info for record in caplog.records)


def test_a_call_that_takes_too_long_ends_at_its_deadline_and_only_what_changes_something_has_an_effect(
    demo: Demo,
) -> None:
    api = demo_api(demo)
    with pytest.raises(DeadlineExceeded, match=r"ListIngests had no answer .*; ask again, for less"):
        demo.ingest().ListIngests(ListRequest(filter="wait"), timeout=0.2)
    with pytest.raises(DeadlineExceeded, match=r"CancelCrawl had no answer .*; its effect is unknown: .* request_id"):
        demo.ingest().CancelCrawl(CancelRequest(name="crawls/wait"), timeout=0.2)
    api.release.set()


def trail(demo: Demo) -> list[audit.Record]:
    """The records of the audit trail, newest first."""
    return demo.host.services[0].host.units.run(lambda unit: list(audit.newest(unit, 100)))


def test_a_change_that_is_refused_or_fails_is_recorded_with_its_reason_and_a_question_is_not(demo: Demo) -> None:
    ingest = demo.ingest()
    with pytest.raises(NotFound):
        ingest.CancelCrawl(CancelRequest(name="crawls/secret"))
    refused = trail(demo)[0]
    assert (refused.outcome, refused.reason, refused.user) == (audit.REFUSED, "NOT_FOUND", "users/engineer")
    assert (refused.action, refused.address) == ("tutti.ingest.v1.IngestService/CancelCrawl", "127.0.0.1")
    assert "secret" not in str(refused)
    with pytest.raises(InvalidField):
        ingest.CreateIngest(CreateIngestRequest(name="ingests/a\0b"))
    assert (trail(demo)[0].action.rpartition("/")[2], trail(demo)[0].reason) == ("CreateIngest", "INVALID_FIELD")
    with pytest.raises(Internal):
        ingest.WithdrawRetraction(WithdrawRetractionRequest(name="retractions/defect"))
    assert (trail(demo)[0].outcome, trail(demo)[0].reason) == (audit.FAILED, "INTERNAL")
    before = trail(demo)
    with pytest.raises(NotFound):
        ingest.GetCrawl(GetRequest(name="crawls/none"))
    with pytest.raises(NotFound):
        ingest.CancelFilter(CancelRequest(name="filters/none", validate_only=True))
    with pytest.raises(NotFound):  # machines are not in the trail
        demo.ingest(Role.SERVICE).CancelFilter(CancelRequest(name="filters/none"))
    assert trail(demo) == before


def test_refusals_that_come_while_one_is_written_are_counted(demo: Demo) -> None:
    count = 200
    with demo.channel(Role.AGENT) as agent, ThreadPoolExecutor(20) as threads:
        stub = IngestServiceStub(agent)
        asked = [threads.submit(stub.CancelClassifier, CancelRequest(name="classifiers/a")) for _ in range(count)]
        assert {type(each.exception(30)) for each in asked} == {PermissionDenied}

    def counted() -> bool:
        found = [each for each in trail(demo) if each.action.endswith("/CancelClassifier")]
        assert {(each.reason, each.user) for each in found} <= {("PERMISSION_DENIED", "users/agent")}
        return sum(each.times for each in found) == count

    eventually(counted)


def test_the_address_that_the_front_door_signed_is_recorded_and_a_forged_one_is_not(demo: Demo) -> None:
    tokens = demo.data_dir.tokens()

    def recorded(value: str) -> str:
        metadata = (("authorization", f"Bearer {tokens.of(Role.OPERATOR)}"), (FORWARDED, value))
        with connection(demo.host.address) as plain, pytest.raises(grpc.RpcError):
            IngestServiceStub(plain).CancelCrawl(CancelRequest(name="crawls/none"), metadata=metadata)
        found = next(each for each in trail(demo) if each.user == "users/operator")
        return found.address

    assert recorded(signed("192.0.2.7", tokens.door_secret)) == "192.0.2.7"
    assert recorded(signed("192.0.2.8", tokens.of(Role.OPERATOR))) == "127.0.0.1"


def test_reflection_lists_the_services_without_a_token(demo: Demo) -> None:
    with connection(demo.host.address) as plain:
        database = ProtoReflectionDescriptorDatabase(plain)
        assert {"tutti.admin.v1.Admin", "tutti.ingest.v1.IngestService"} <= set(database.get_services())
        service = descriptor_pool.DescriptorPool(database).FindServiceByName("tutti.ingest.v1.IngestService")
        assert "CreateIngest" in service.methods_by_name
        for symbol in ("tutti.ingest.v1.IngestService.CreateIngest", "tutti.ingest.v1.Ingest.name"):
            asked = ProtoReflectionDescriptorDatabase(
                plain
            )  # which has nothing to look into yet, as `grpcurl describe`
            assert asked.FindFileContainingSymbol(symbol).name.startswith("tutti/")
        with pytest.raises(KeyError):
            ProtoReflectionDescriptorDatabase(plain).FindFileContainingSymbol("tutti.ingest.v1.IngestService.Nothing")


def test_health_answers_for_all_for_a_service_and_for_its_contract(demo: Demo) -> None:
    with connection(demo.host.address) as plain:
        health: Any = HealthStub(plain)
        for name in ("", "ingest", "tutti.ingest.v1.IngestService"):
            assert health.Check(HealthCheckRequest(service=name)).status == HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(HealthCheckRequest(service="other"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_port_in_use_is_named(demo: Demo, tmp_path: Path) -> None:
    demo.create("ingests/still-served")
    with (
        pytest.raises(CannotListen, match=rf"{demo.host.address}.*rpc.listen"),
        running(tmp_path, f"rpc.listen={demo.host.address}"),
    ):
        pass
    demo.ingest().GetIngest(GetRequest(name="ingests/still-served"))


def test_nobody_at_the_address_is_unreachable() -> None:
    with (
        RpcChannel(lambda: "127.0.0.1:1", token=secrets.token_hex(), attempts=2) as channel,
        pytest.raises(Unreachable, match="tutti up"),
    ):
        IngestServiceStub(channel).GetIngest(GetRequest(name="ingests/a"))


def test_a_trace_goes_through_client_server_and_outbox(demo: Demo) -> None:
    exporter, provider, before = InMemorySpanExporter(), TracerProvider(), telemetry._provider
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.use_provider(provider)
    try:
        with telemetry.span("the cause") as cause:
            demo.create("ingests/traced")
    finally:
        telemetry.use_provider(before)
    trace = cause.get_span_context().trace_id
    kinds = {
        span.kind.name for span in exporter.get_finished_spans() if span.context and span.context.trace_id == trace
    }
    assert {"CLIENT", "SERVER"} <= kinds
    rows = demo.host.services[0].host.units.run(lambda unit: outbox.tail(unit, limit=1))
    assert rows[0].record.key == "ingests/traced"
    assert rows[0].record.headers["traceparent"].split("-")[1] == format(trace, "032x")


def test_the_id_of_a_request_travels_in_the_header_of_its_events(demo: Demo) -> None:
    demo.create("ingests/asked")
    demo.change("ingests/asked", "asked again")
    rows = demo.host.services[0].host.units.run(lambda unit: outbox.tail(unit, limit=2))
    assert {row.record.headers["request_id"] for row in rows} == {"make ingests/asked", "asked again"}


@pytest.mark.parametrize("request_id", ["x" * 1_500_000, "two\nlines", "\0"])
def test_an_id_of_a_request_that_no_header_should_hold_is_refused(demo: Demo, request_id: str) -> None:
    with pytest.raises(InvalidField) as caught:
        demo.ingest().CreateIngest(CreateIngestRequest(name="ingests/long", request_id=request_id))
    assert caught.value.field == "request_id"
    assert len(str(caught.value)) < 200


def test_an_error_marks_the_span_of_the_server(demo: Demo) -> None:
    exporter, provider, before = InMemorySpanExporter(), TracerProvider(), telemetry._provider
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.use_provider(provider)
    try:
        with pytest.raises(NotFound):
            demo.ingest().GetIngest(GetRequest(name="ingests/none"))
    finally:
        telemetry.use_provider(before)
    servers = [span for span in exporter.get_finished_spans() if span.kind.name == "SERVER"]
    assert [span.status.status_code.name for span in servers] == ["ERROR"]


class SlowReader:
    """A pipeline whose recipes take long to check."""

    def __init__(self) -> None:
        self.inside, self.release = threading.Semaphore(0), threading.Event()

    def CheckRecipe(self, request: CheckRecipeRequest, call: Call) -> CheckRecipeResponse:
        self.inside.release()
        self.release.wait(30)
        return CheckRecipeResponse()

    def GetRun(self, request: GetRequest, call: Call) -> Run:
        return Run(name=request.name)

    def ListRecipeFiles(self, request: ListRecipeFilesRequest, call: Call) -> ListRecipeFilesResponse:
        return ListRecipeFilesResponse()

    def CreateRun(self, request: CreateRunRequest, call: Call) -> CreateRunResponse:
        return CreateRunResponse()

    ListRuns = CancelRun = PlanReruns = UpdateRun = CreateRun


def reading(api: SlowReader, tokens: Tokens) -> RpcServer:
    return RpcServer(
        [Served(PIPELINE, api)],
        settings=RpcSettings(threads=1, readers=1),
        tokens=tokens,
        health=Health({"pipeline": []}),
        record=lambda refusal, times: None,
    )


def test_calls_that_read_data_whole_take_no_thread_from_others() -> None:
    api, tokens = SlowReader(), Tokens.random()
    server = reading(api, tokens)
    address = server.start()
    with RpcChannel(lambda: address, token=tokens.of(Role.ENGINEER), deadline_seconds=30) as channel:
        stub = PipelineServiceStub(channel)
        callers = [threading.Thread(target=lambda: stub.CheckRecipe(CheckRecipeRequest())) for _ in range(2)]
        for caller in callers:
            caller.start()
        assert api.inside.acquire(timeout=60)
        assert stub.GetRun(GetRequest(name="runs/a")).name == "runs/a"
        api.release.set()
        for caller in callers:
            caller.join(15)
    assert server.drain(5) == []


def test_a_method_without_a_role_is_refused_before_anything_is_served() -> None:
    with pytest.raises(BadService, match=r"open.v1.Open.Anyone declares no role"):
        serve(open_service(), object())


def test_an_api_that_lacks_a_method_is_refused() -> None:
    with pytest.raises(BadService, match="object lacks CreateCrawl, GetCrawl"):
        serve(INGEST, object())


def test_calls_in_flight_end_before_the_server_does(tmp_path: Path) -> None:
    answers: list[object] = []
    with running(tmp_path) as demo:
        api = demo_api(demo)
        caller = threading.Thread(target=lambda: answers.append(demo.ingest().ListIngests(ListRequest(filter="wait"))))
        caller.start()
        eventually(lambda: demo.host._server._inside)
        threading.Timer(0.3, api.release.set).start()
        assert demo.host.drain() == []
        caller.join(5)
        assert len(answers) == 1


def test_a_call_that_does_not_end_is_cut_off_and_named(tmp_path: Path) -> None:
    with running(tmp_path, "lifecycle.drain_seconds=0.5") as demo:
        api = demo_api(demo)

        def call() -> None:
            with contextlib.suppress(Problem):
                demo.ingest().ListIngests(ListRequest(filter="wait"))

        caller = threading.Thread(target=call)
        caller.start()
        eventually(lambda: demo.host._server._inside)
        assert demo.host.drain() == ["call ListIngests"]
        api.release.set()
        caller.join(15)


def test_many_servers_that_cut_calls_off_survive_it() -> None:
    """A second stop of a server just when the first ended it made gRPC use what it had freed."""
    api, tokens = SlowReader(), Tokens.random()
    servers = [reading(api, tokens) for _ in range(60)]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2 * len(servers)) as threads:
        cut_off = []
        for server in servers:
            server.start()
            channel = RpcChannel(partial(getattr, server, "address"), token=tokens.of(Role.ENGINEER))
            stub = PipelineServiceStub(stack.enter_context(channel))
            cut_off.append(threads.submit(stub.CheckRecipe, CheckRecipeRequest()))
            assert api.inside.acquire(timeout=60)
        drained = list(threads.map(lambda server: server.drain(0.001), servers))
        api.release.set()
        assert [type(each.exception(30)) for each in cut_off] == [Unreachable] * len(servers)
    assert drained == [["CheckRecipe"]] * len(servers)


def serve(descriptor: ServiceDescriptor, api: object) -> None:
    RpcServer(
        [Served(descriptor, api)],
        settings=RpcSettings(),
        tokens=Tokens.random(),
        health=Health({"demo": []}),
        record=lambda refusal, times: None,
    )


def open_service() -> ServiceDescriptor:
    file = descriptor_pb2.FileDescriptorProto(name="open.proto", package="open.v1", syntax="proto3")
    file.message_type.add(name="Empty")
    service = file.service.add(name="Open")
    service.method.add(name="Anyone", input_type=".open.v1.Empty", output_type=".open.v1.Empty")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindServiceByName("open.v1.Open")
