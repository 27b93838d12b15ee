"""Pruner: removes what the chassis kept long enough.

Promises: an inbox row outlives the retention of the facts that it fences and of their dead letters; the newest snapshot
of a resource stays in the outbox.
"""

from collections.abc import Sequence
from datetime import timedelta

from tutti.backbone import Isolation
from tutti.chassis import outbox
from tutti.chassis.inbox import Inbox
from tutti.chassis.unit import Unit, Units

SENT_RETENTION = timedelta(days=14)
INBOX_RETENTION = timedelta(days=30)


class Pruner:
    """A Loop."""

    def __init__(
        self,
        units: Units,
        groups: Sequence[str],
        *,
        sent_retention: timedelta = SENT_RETENTION,
        inbox_retention: timedelta = INBOX_RETENTION,
        interval: float = 3600.0,
    ) -> None:
        if inbox_retention <= sent_retention:
            raise ValueError(
                f"the inbox keeps {inbox_retention}, sent events are kept {sent_retention} and may be sent again: the "
                f"inbox must keep longer"
            )
        self.name, self.interval = f"{units.service} pruner", interval
        self._units, self._inboxes = units, [Inbox(group) for group in groups]
        self._sent, self._seen = sent_retention, inbox_retention

    def step(self) -> bool:
        self._units.run(self._prune, isolation=Isolation.READ_COMMITTED)
        return False

    def _prune(self, unit: Unit) -> None:
        outbox.prune(unit, unit.now - self._sent)
        for inbox in self._inboxes:
            inbox.prune(unit, unit.now - self._seen)
