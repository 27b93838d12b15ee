"""Logs that are counted within bounds."""

import http.client
import logging

import pytest

from tutti.chassis.metrics import MAX_TEMPLATES, LogCounter, Metrics, MetricsServer


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


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost", 200), ("a.localhost:80", 200), ("[::1]:9", 200), ("rebound.example:1", 421)],
)
def test_on_loopback_metrics_are_answered_for_local_hosts_alone(host: str, status: int) -> None:
    server = MetricsServer("127.0.0.1:0", Metrics())
    try:
        connection = http.client.HTTPConnection(server.address, timeout=10)
        connection.request("GET", "/metrics", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()
    finally:
        server.close()
