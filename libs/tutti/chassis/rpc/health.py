"""Health as gRPC clients ask for it: the truth about each service.

Promises: NOT_SERVING until told that a service is ready, while it drains, and while something it stands on is away; the
overall answer (the empty name) is SERVING only when all are.
"""

import threading
from collections.abc import Iterable, Mapping

from grpc_health.v1.health import aio
from grpc_health.v1.health_pb2 import HealthCheckResponse

from tutti.chassis.rpc import eventloop

SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING


class Health:
    def __init__(self, services: Mapping[str, Iterable[str]]) -> None:
        """`services`: by name, the full names of the gRPC services that it serves; each name can be asked for."""
        self.servicer = aio.HealthServicer()
        self._services = {name: [name, *served] for name, served in services.items()}
        self._reasons: dict[str, str] = dict.fromkeys(services, "starts")
        self._lock = threading.Lock()
        self._tell([*self._services])

    def set(self, service: str, reason: str = "") -> None:
        """An empty reason: it serves; else why it does not."""
        with self._lock:
            if self._reasons.get(service) == reason:
                return
            self._reasons[service] = reason
        self._tell([service])

    def ready(self, service: str) -> bool:
        return self.reason(service) == ""

    def reason(self, service: str) -> str:
        """The reason why a service does not serve; empty when it does."""
        with self._lock:
            return self._reasons.get(service, "is not here")

    def reasons(self) -> dict[str, str]:
        """By service that does not serve, why."""
        with self._lock:
            return {name: reason for name, reason in self._reasons.items() if reason}

    def _tell(self, services: Iterable[str]) -> None:
        async def tell() -> None:
            with self._lock:
                reasons = dict(self._reasons)
            for service in services:
                for name in self._services[service]:
                    await self.servicer.set(name, NOT_SERVING if reasons[service] else SERVING)
            await self.servicer.set("", NOT_SERVING if any(reasons.values()) else SERVING)

        eventloop.run(tell(), 10)
