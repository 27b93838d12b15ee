"""A collector of traces that a test can let hang: it takes connections then, and answers nothing."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

CALLERS = 32  # that may hang at a time


@dataclass(frozen=True)
class Seen:
    """A span: its name, its trace, and which process made it."""

    service: str
    name: str
    trace: str


class Collector(TraceServiceServicer):
    def __init__(self) -> None:
        self._spans: list[Seen] = []
        self._changed = threading.Condition()
        self._answers = threading.Event()
        self.asked = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(CALLERS))
        add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def hang(self) -> None:
        self._answers.clear()
        self.asked.clear()

    def answer(self) -> None:
        self._answers.set()

    def close(self) -> None:
        self.answer()
        self._server.stop(grace=1).wait(5)

    def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:
        self.asked.set()
        self._answers.wait()
        with self._changed:
            for resource in request.resource_spans:
                names = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self._spans += [Seen(names["service.name"], span.name, span.trace_id.hex()) for span in scope.spans]
            self._changed.notify_all()
        return ExportTraceServiceResponse()

    @property
    def count(self) -> int:
        """The number of spans so far."""
        with self._changed:
            return len(self._spans)

    def await_names(self, wanted: Iterable[str], *, seconds: float) -> dict[str, set[str]]:
        """The beginnings of names that each trace has, once one trace has them all or the time is over."""
        names = list(wanted)

        def complete() -> bool:
            return any(set(names) <= found for found in self._by_trace(names).values())

        with self._changed:
            self._changed.wait_for(complete, seconds)
            return self._by_trace(names)

    def _by_trace(self, names: Iterable[str]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for span in self._spans:
            hops = {name for name in names if f"{span.service}: {span.name}".startswith(name)}
            found.setdefault(span.trace, set()).update(hops)
        return found
