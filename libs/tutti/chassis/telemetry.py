"""Traces, the same for every service.

Promises: every call and every event has a trace id even when nothing is exported, and the events of one cause have the
same one, through calls, handlers, tasks and reconcilers; spans leave the process only when
OTEL_EXPORTER_OTLP_ENDPOINT is set.
"""

import os
import threading
import time
from functools import partial
from types import TracebackType

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tutti.chassis import spans
from tutti.chassis.spans import TRACEPARENT

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
FLUSH_SECONDS = 2.0
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

    from tutti.chassis.connections import DIRECT
    from tutti.chassis.exporting import CountedSpans, HashedOnce

    provider = TracerProvider(
        # By the trace id alone: the flag of a caller that exports nothing, such as a command, says "not sampled".
        sampler=TraceIdRatioBased(sample_ratio),
        resource=HashedOnce(Resource.create({"service.name": f"tutti-{service}"})),
        shutdown_on_exit=False,  # it would wait for the collector; `flush_tracing` does, for two seconds
    )
    exporter = OTLPSpanExporter(channel_options=DIRECT)  # type: ignore[arg-type]  # its stub knows no numbers
    provider.add_span_processor(CountedSpans(exporter))
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


spans.use(partial(span, kind=SpanKind.CLIENT), current_traceparent)
