"""Logs that are counted within bounds."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import Any

import pytest

from tutti.chassis import metrics as metrics_module
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
        connection = HTTPConnection(server.address, timeout=10)
        connection.request("GET", "/metrics", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()
    finally:
        server.close()


def test_metrics_are_answered_at_an_ipv6_address() -> None:
    with closing(MetricsServer("[::1]:0", Metrics())) as server, closing(HTTPConnection(server.address)) as connection:
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200


def test_an_address_that_cannot_be_had_is_named() -> None:
    with (
        closing(MetricsServer("127.0.0.1:0", Metrics())) as server,
        pytest.raises(OSError, match=f"{server.address}.*telemetry.metrics_listen"),
    ):
        MetricsServer(server.address)


BEGUN = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    made = MetricsServer("127.0.0.1:0", Metrics())
    yield made
    made.close()


def begun(server: MetricsServer) -> socket.socket:
    """A connection with a request that is not whole."""
    host, _, port = server.address.rpartition(":")
    made = socket.create_connection((host, int(port)), 60)
    made.sendall(BEGUN)
    return made


def test_however_many_requests_are_never_whole_metrics_are_answered_with_few_threads(server: MetricsServer) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        made = [stack.enter_context(begun(server)) for _ in range(200)]
        assert made[0].recv(1) == b""
        connection = HTTPConnection(server.address, timeout=60)
        connection.request("GET", "/metrics", headers={"Host": "localhost"})
        assert connection.getresponse().status == 200
        connection.close()
        assert threading.active_count() - before <= 2 * metrics_module.MOST_SCRAPES


def test_connections_that_come_while_the_server_is_busy_wait_and_are_not_dropped(server: MetricsServer) -> None:
    busy: Any = server._server
    with ExitStack() as stack, busy._lock:
        for _ in range(100):
            stack.enter_context(begun(server))


def test_a_request_that_comes_in_drops_ends_at_its_deadline(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "SCRAPE_SECONDS", 0.5)
    with begun(server) as made:
        made.settimeout(0.1)
        for _ in range(600):
            try:
                made.sendall(b"a")
                if made.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    pytest.fail("the connection is still there")
