"""Traces and metrics, the same for every service.

Promises: every call and every event has a trace id even when nothing is exported, and the events of one cause have the
same one, through calls, handlers, tasks and reconcilers; spans leave the process only when
OTEL_EXPORTER_OTLP_ENDPOINT is set; metrics are made once a name, with help and unit, and read at `/metrics`.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

W = TypeVar("W", bound=MetricWrapperBase)
TRACEPARENT = "traceparent"
ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
FLUSH_SECONDS = 2.0
MAX_TEMPLATES, TEMPLATE_CHARACTERS = 200, 80
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_propagator = TraceContextTextMapPropagator()
# Without a sampler that records, spans still have ids: that is what logs and events need.
_provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
_tracer = _provider.get_tracer("tutti.chassis")


def configure_tracing(service: str, *, sample_ratio: float) -> None:
    """Export spans when the environment names a collector; otherwise only make trace ids."""
    if not os.environ.get(ENDPOINT_VARIABLE):
        return
    # Slow to import, and needed by few.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    from tutti.chassis.exporting import CountedSpans, HashedOnce

    provider = TracerProvider(
        # By the trace id alone: the flag of a caller that exports nothing, such as a command, says "not sampled".
        sampler=TraceIdRatioBased(sample_ratio),
        resource=HashedOnce(Resource.create({"service.name": f"tutti-{service}"})),
        shutdown_on_exit=False,  # it would wait for the collector; `flush_tracing` does, for two seconds
    )
    provider.add_span_processor(CountedSpans(OTLPSpanExporter()))
    use_provider(provider)


def use_provider(provider: TracerProvider) -> None:
    """Make spans with this provider (tests look at what they recorded)."""
    global _provider, _tracer
    _provider, _tracer = provider, provider.get_tracer("tutti.chassis")


def flush_tracing() -> None:
    """Send what is still held, for at most two seconds; called once, when the process stops."""
    # The exporter keeps to no deadline of `force_flush` while the collector does not answer.
    flush = threading.Thread(target=_provider.force_flush, args=(int(FLUSH_SECONDS * 1000),), daemon=True)
    flush.start()
    flush.join(FLUSH_SECONDS)


def current_traceparent() -> str:
    """The W3C traceparent of the span that is open here; empty when there is none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get(TRACEPARENT, "")


def new_traceparent(name: str) -> str:
    """The traceparent of a trace that begins here: for an event that nothing caused but time."""
    with span_from("", name, kind=SpanKind.INTERNAL):
        return current_traceparent()


class Opened:
    """A span that is the current one from `with` on, and ends with it; an error marks it.

    It is a class because three nested generators take 10 instead of 7 µs for the same.
    """

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        context.detach(self._token)
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self._span.end()


def span_from(traceparent: str, name: str, *, kind: SpanKind = SpanKind.CONSUMER, **attributes: str) -> Opened:
    """A span that continues another's trace (or starts one when `traceparent` is empty)."""
    parent = _propagator.extract({TRACEPARENT: traceparent}, Context()) if traceparent else Context()
    return Opened(_tracer.start_span(name, context=parent, kind=kind, attributes=attributes))


def span(name: str, *, kind: SpanKind = SpanKind.INTERNAL, **attributes: str) -> Opened:
    """A span below the one that is open here."""
    return Opened(_tracer.start_span(name, kind=kind, attributes=attributes))


def span_before(traceparent: str, name: str, *, seconds: float, **attributes: str) -> None:
    """A span that ends now and began `seconds` ago, in another's trace: of work in a process that exports nothing."""
    parent = _propagator.extract({TRACEPARENT: traceparent}, Context()) if traceparent else Context()
    now = time.time_ns()
    began = now - int(seconds * 1e9)
    _tracer.start_span(name, context=parent, kind=SpanKind.CLIENT, attributes=attributes, start_time=began).end(now)


class Metrics:
    """Metrics by name; asking again for a name gives the same one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._known: dict[str, MetricWrapperBase] = {}
        self._lock = threading.Lock()

    def counter(self, name: str, documentation: str, unit: str = "", labels: Sequence[str] = ()) -> Counter:
        return self._once(
            name, lambda: Counter(name, documentation, labels, unit=unit, registry=self.registry), Counter
        )

    def gauge(self, name: str, documentation: str, unit: str = "", labels: Sequence[str] = ()) -> Gauge:
        return self._once(name, lambda: Gauge(name, documentation, labels, unit=unit, registry=self.registry), Gauge)

    def histogram(
        self,
        name: str,
        documentation: str,
        unit: str = "",
        labels: Sequence[str] = (),
        buckets: Sequence[float] = SECONDS,
    ) -> Histogram:
        return self._once(
            name,
            lambda: Histogram(name, documentation, labels, unit=unit, buckets=buckets, registry=self.registry),
            Histogram,
        )

    def collect(self, collector: Collector) -> None:
        """Ask this collector at every scrape."""
        self.registry.register(collector)

    def forget(self, collector: Collector) -> None:
        self.registry.unregister(collector)

    def _once(self, name: str, make: Callable[[], W], kind: type[W]) -> W:
        with self._lock:
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = make()
            if not isinstance(known, kind):
                raise ValueError(f"the metric {name} is a {type(known).__name__}, not a {kind.__name__}")
            return known


metrics = Metrics()


class LogCounter(logging.Handler):
    """Counts warnings and errors by template, so that a flood of them is a number; at most `MAX_TEMPLATES` of them."""

    def __init__(self, counted: Metrics = metrics) -> None:
        super().__init__(logging.WARNING)
        self._records = counted.counter(
            "log_records", "Warnings and errors that were logged", labels=["level", "logger", "template"]
        )
        self._templates: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        template = str(record.msg)[:TEMPLATE_CHARACTERS]
        if template not in self._templates and len(self._templates) >= MAX_TEMPLATES:
            template = "other"
        self._templates.add(template)
        self._records.labels(record.levelname.lower(), record.name, template).inc()


_counter = LogCounter()


def count_logs() -> None:
    """Count what is logged from now on; again changes nothing."""
    logging.getLogger().addHandler(_counter)


class MetricsServer:
    """`/metrics` over HTTP. Raises OSError when the address is taken."""

    def __init__(self, listen: str, served: Metrics = metrics) -> None:
        host, _, port = listen.rpartition(":")
        self._server, self._thread = start_http_server(int(port), addr=host, registry=served.registry)
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
