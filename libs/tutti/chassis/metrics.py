"""Metrics, the same for every service.

Promises: metrics are made once a name, with help and unit, and read at `/metrics`; the warnings and errors that are
logged are counted within bounds. Only processes that are measured import it: a command is not.
"""

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

W = TypeVar("W", bound=MetricWrapperBase)
MAX_TEMPLATES, TEMPLATE_CHARACTERS = 200, 80
MOST_SCRAPES = 16
"""Connections at once; the oldest gives way to another."""
SCRAPE_SECONDS = 10.0
"""For a request to come and its answer to go."""
CLOSE_SECONDS = 0.1
"""The server sees within this time that it is closed, and that a request is late."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


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


class _Handler(WSGIRequestHandler):
    timeout = SCRAPE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def is_local(host: str) -> bool:
    """Return whether a host, with a port or without, is a name or an address of loopback."""
    name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


class _BoundedServer(ThreadingWSGIServer):
    """One thread for each connection; the number of connections and their time are limited."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that wait to be accepted. The kernel drops further ones, and their clients try again for 31 s."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._since = dict[socket.socket, float]()
        self._lock = threading.Lock()
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._since) >= MOST_SCRAPES:
                self._drop(next(iter(self._since)))
            self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        with self._lock:
            late = time.monotonic() - SCRAPE_SECONDS
            for each in [each for each, since in self._since.items() if since <= late]:
                self._drop(each)

    def _drop(self, request: socket.socket) -> None:
        """Wake the thread of a connection, which then closes it."""
        del self._since[request]
        with suppress(OSError):  # its client has closed it
            request.shutdown(socket.SHUT_RDWR)


class _BoundedServer6(_BoundedServer):
    address_family = socket.AF_INET6


class MetricsServer:
    """`/metrics` over HTTP; on loopback for local host names alone, since a page elsewhere can name any host.

    Raises OSError, which names the address, if it is taken or not this machine's.
    """

    def __init__(self, listen: str, served: Metrics = metrics) -> None:
        host, _, port = listen.rpartition(":")
        name = host.strip("[]")
        app = make_wsgi_app(served.registry)

        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if not is_local(host) or is_local(str(environ.get("HTTP_HOST", host)).strip()):
                body: Iterable[bytes] = app(environ, start)
                return body
            start("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"ask for localhost or 127.0.0.1\n"]

        try:
            kind = _BoundedServer6 if ":" in name else _BoundedServer
            self._server = make_server(name, int(port), answer, kind, _Handler)
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(
                f"cannot listen at {listen} for metrics: {error}; set telemetry.metrics_listen to another address "
                f"(port 0: any free one)"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
