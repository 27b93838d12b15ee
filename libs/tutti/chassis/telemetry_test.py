"""Spans that are decided by their trace alone, and logs that are counted within bounds."""

import logging

import pytest

from tutti.chassis import telemetry
from tutti.chassis.telemetry import MAX_TEMPLATES, LogCounter, Metrics


def count(metrics: Metrics, template: str) -> float | None:
    labels = {"level": "warning", "logger": "noisy", "template": template}
    return metrics.registry.get_sample_value("log_records_total", labels)


def test_a_flood_of_warnings_is_one_number_and_new_templates_are_bounded() -> None:
    metrics, log = Metrics(), logging.Logger("noisy")
    log.addHandler(LogCounter(metrics))
    for number in range(1000):
        log.warning("lost %d", number)
        log.info("found %d", number)
    assert count(metrics, "lost %d") == 1000
    assert count(metrics, "found %d") is None
    for number in range(2 * MAX_TEMPLATES):
        log.warning(f"template {number}")
    assert count(metrics, "other") == MAX_TEMPLATES + 1


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
