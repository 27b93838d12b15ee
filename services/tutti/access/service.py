"""The access service: users, login links and sessions.

Promises: no secret and nothing personal reaches an event; a disabled user is refused at the next request.
"""

from datetime import timedelta
from pathlib import Path

from tutti.access.allowances import Rates
from tutti.access.reservations import Reservations
from tutti.access.rpc import AccessApi
from tutti.access.settings import AccessSettings
from tutti.access.tables import Tables
from tutti.backbone import Isolation
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.unit import Units
from tutti.contracts.access.v1.access_pb2 import DESCRIPTOR

HOUR = 3600.0
SWEEP_SECONDS = 10.0


class Pruner:
    """A Loop that deletes expired links and sessions, old reservations, and rate limits that limit nothing any more."""

    def __init__(self, units: Units, tables: Tables, reservations: Reservations, settings: AccessSettings) -> None:
        self.name, self.interval = "access sessions pruner", HOUR
        self._units, self._tables, self._kept = units, tables, timedelta(days=settings.session_days)
        self._reservations = reservations

    def step(self) -> bool:
        self._units.run(
            lambda unit: self._tables.prune(unit, unit.now - self._kept, unit.now - self._kept),
            isolation=Isolation.READ_COMMITTED,
        )
        self._units.run(self._reservations.prune, isolation=Isolation.READ_COMMITTED)
        return False


class Sweeper:
    """A Loop that ends reservations of answers whose router stopped renewing them."""

    def __init__(self, units: Units, reservations: Reservations, rates: Rates) -> None:
        self.name, self.interval = "access reservations sweeper", SWEEP_SECONDS
        self._units, self._reservations, self._rates = units, reservations, rates

    def step(self) -> bool:
        ended = self._units.run(
            lambda unit: self._reservations.expire(unit, self._rates), isolation=Isolation.READ_COMMITTED
        )
        return bool(ended)


def build(host: Host) -> Service:
    tables, settings = Tables(host.metadata), host.settings(AccessSettings)
    reservations = Reservations(host.metadata)
    rates = Rates(settings.answers_per_minute, settings.answer_tokens_per_minute, settings.concurrent_answers)
    api = AccessApi(host, tables, settings, reservations, rates)
    kept = standard.Stored(host.units, tables.users)
    return Service(
        name="access",
        resources=[tables.users],
        tables=(*tables.rows, *reservations.tables),
        serves=[standard.served(DESCRIPTOR.services_by_name["AccessService"], api, kept)],
        loops=[Pruner(host.units, tables, reservations, settings), Sweeper(host.units, reservations, rates)],
        migrations=Path(__file__).with_name("migrations"),
    )
