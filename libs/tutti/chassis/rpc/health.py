"""Health as gRPC clients ask for it: the truth about each service.

Promises: NOT_SERVING until told that a service is ready, while it drains, and while something it stands on is away; the
overall answer (the empty name) is SERVING only when all are.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from grpc_health.v1.health import aio
from grpc_health.v1.health_pb2 import HealthCheckResponse

from tutti.chassis.rpc import eventloop

SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True)
class Standing:
    """The health of a service: the reason why it does not serve, empty if it serves, and since when this holds."""

    reason: str
    since: datetime


class Health:
    def __init__(
        self, services: Mapping[str, Iterable[str]], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`services`: by name, the full names of the gRPC services that it serves; each name can be asked for."""
        self.servicer = aio.HealthServicer()
        self._services = {name: [name, *served] for name, served in services.items()}
        self._now = now
        self._standings = dict.fromkeys(services, Standing("starts", now()))
        self._lock = threading.Lock()
        self._tell([*self._services])

    def set(self, service: str, reason: str = "") -> None:
        """An empty reason: it serves; else why it does not."""
        with self._lock:
            before = self._standings.get(service)
            if before is not None and before.reason == reason:
                return
            self._standings[service] = Standing(reason, self._now())
        self._tell([service])

    def ready(self, service: str) -> bool:
        return self.reason(service) == ""

    def reason(self, service: str) -> str:
        """The reason why a service does not serve; empty when it does."""
        with self._lock:
            return self._standings[service].reason if service in self._standings else "is not here"

    def standing(self, service: str) -> Standing:
        """The health of a service of this process. Raises KeyError."""
        with self._lock:
            return self._standings[service]

    def reasons(self) -> dict[str, str]:
        """By service that does not serve, why."""
        with self._lock:
            return {name: each.reason for name, each in self._standings.items() if each.reason}

    def _tell(self, services: Iterable[str]) -> None:
        async def tell() -> None:
            with self._lock:
                reasons = {name: each.reason for name, each in self._standings.items()}
            for service in services:
                for name in self._services[service]:
                    await self.servicer.set(name, NOT_SERVING if reasons[service] else SERVING)
            await self.servicer.set("", NOT_SERVING if any(reasons.values()) else SERVING)

        eventloop.run(tell(), 10)
