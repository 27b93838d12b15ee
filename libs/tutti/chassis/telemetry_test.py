"""Spans that are decided by their trace alone, and counted."""

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from tutti.chassis import telemetry
from tutti.chassis.exporting import CountedSpans, HashedOnce
from tutti.chassis.metrics import Metrics


def test_the_trace_of_a_command_that_exports_nothing_is_sampled_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telemetry.ENDPOINT_VARIABLE, "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")  # nothing is sent
    monkeypatch.setattr(telemetry, "_provider", telemetry._provider)
    monkeypatch.setattr(telemetry, "_tracer", telemetry._tracer)
    of_command = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"  # the last 00: not sampled
    with telemetry.span_from(of_command, "before") as span:
        assert not span.is_recording()
    telemetry.configure_tracing("test", sample_ratio=1.0)
    with telemetry.span_from(of_command, "answered") as span:
        assert span.is_recording()


class Hanging(SpanExporter):
    """A collector that answers nothing until it is freed."""

    def __init__(self) -> None:
        self.free, self.asked = threading.Event(), threading.Event()
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.free.wait(60)
        self.taken += len(spans)
        return SpanExportResult.SUCCESS


def test_spans_that_a_hanging_collector_costs_are_counted_and_nothing_waits_for_it() -> None:
    collector, counted, provider = Hanging(), Metrics(), TracerProvider()
    provider.add_span_processor(CountedSpans(collector, counted, queue=4))
    tracer = provider.get_tracer("test")

    def end(count: int) -> None:
        for _ in range(count):
            tracer.start_span("work").end()

    end(4)  # a full queue is sent at once
    assert collector.asked.wait(60)
    end(100)
    collector.free.set()
    assert provider.force_flush()
    sample = counted.registry.get_sample_value
    assert sample("spans_ended_total") == 104
    assert sample("spans_exported_total", {"outcome": "success"}) == collector.taken
    assert 4 <= collector.taken < 20
    provider.shutdown()


def test_a_resource_that_is_hashed_once_is_found_as_the_one_that_it_was_made_of() -> None:
    given = Resource.create({"service.name": "tutti-scheduler"})
    made: Resource = HashedOnce(given)
    assert {given: "first"}[made] == {made: "first"}[given] == "first"
    assert made != HashedOnce(Resource.create({"service.name": "tutti-ingest"}))
