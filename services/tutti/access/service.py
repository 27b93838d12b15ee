"""The access service: users, login links and sessions.

Promises: no secret and nothing personal reaches an event; a disabled user is refused at the next request.
"""

from datetime import timedelta
from pathlib import Path

from tutti.access.rpc import AccessApi
from tutti.access.settings import AccessSettings
from tutti.access.tables import Tables
from tutti.backbone import Isolation
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.unit import Units
from tutti.contracts.access.v1.access_pb2 import DESCRIPTOR

HOUR = 3600.0


class Pruner:
    """A Loop that deletes expired links and sessions, and rate limits that no longer limit anything."""

    def __init__(self, units: Units, tables: Tables, settings: AccessSettings) -> None:
        self.name, self.interval = "access sessions pruner", HOUR
        self._units, self._tables, self._kept = units, tables, timedelta(days=settings.session_days)

    def step(self) -> bool:
        self._units.run(
            lambda unit: self._tables.prune(unit, unit.now - self._kept, unit.now - self._kept),
            isolation=Isolation.READ_COMMITTED,
        )
        return False


def build(host: Host) -> Service:
    tables, settings = Tables(host.metadata), host.settings(AccessSettings)
    api = AccessApi(host, tables, settings)
    kept = standard.Stored(host.units, tables.users)
    return Service(
        name="access",
        resources=[tables.users],
        tables=tables.rows,
        serves=[standard.served(DESCRIPTOR.services_by_name["AccessService"], api, kept)],
        loops=[Pruner(host.units, tables, settings)],
        migrations=Path(__file__).with_name("migrations"),
    )
