"""Pruner: removes what the chassis kept long enough.

Promises: an inbox row outlives the retention of the facts that it fences and of their dead letters; the newest snapshot
of a resource stays in the outbox; a task that waits or runs stays, however old.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tutti.backbone import Isolation
from tutti.chassis.delivery import outbox
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.store import audit, taskrows
from tutti.chassis.store.unit import Unit, Units


@dataclass(frozen=True)
class Retention:
    """`facts`: records of FACT topics, and sent events, which may be sent again until then. `inbox`: what fences them,
    and tasks that ended. Raises ValueError."""

    facts: timedelta = timedelta(days=14)
    inbox: timedelta = timedelta(days=30)
    audit: timedelta = timedelta(days=365)

    def __post_init__(self) -> None:
        if self.inbox <= self.facts:
            raise ValueError(
                f"the inbox keeps {self.inbox}, sent events are kept {self.facts} and may be sent again: the "
                f"inbox must keep longer"
            )


class Pruner:
    """A Loop."""

    def __init__(
        self,
        units: Units,
        groups: Sequence[str],
        *,
        retention: Retention | None = None,
        interval: float = 3600.0,
    ) -> None:
        self.name, self.interval = f"{units.service} pruner", interval
        self._units, self._inboxes = units, [Inbox(group) for group in groups]
        self._retention = retention or Retention()

    def step(self) -> bool:
        self._units.run(self._prune, isolation=Isolation.READ_COMMITTED)
        return False

    def _prune(self, unit: Unit) -> None:
        outbox.prune(unit, unit.now - self._retention.facts)
        for inbox in self._inboxes:
            inbox.prune(unit, unit.now - self._retention.inbox)
        taskrows.prune(unit, unit.now - self._retention.inbox)
        audit.prune(unit, unit.now - self._retention.audit)
