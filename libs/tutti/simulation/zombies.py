"""A zombie: a relay that slept with rows in its hands while another took its place.

Promises: it wakes up, publishes what it held, and finds out.
"""

from collections.abc import Callable

from tutti.chassis.delivery.outbox import Outgoing
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.store.leases import Lease


class Zombie:
    """A Loop."""

    def __init__(self, relay: Relay, rows: list[Outgoing], lease: Lease, *, retire: Callable[["Zombie"], None]) -> None:
        self.name, self.interval = f"{relay.name} (zombie)", 1.0
        self._relay, self._rows, self._lease, self._retire = relay, rows, lease, retire

    def step(self) -> bool:
        self._relay.publish(self._rows)
        self._relay.mark(self._rows, self._lease)
        self._retire(self)
        return True
