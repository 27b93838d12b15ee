"""Controls: one safeguard taken out, to show that its absence is found.

Promises: nothing outside a simulation can do this.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import TypeVar

from sqlalchemy import update

from tutti.backbone import EventLog, Isolation, Kind
from tutti.chassis.delivery import outbox
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.delivery.outbox import Outgoing
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.events.event import Event
from tutti.chassis.store.leases import Lease
from tutti.chassis.store.taskrows import Task, TaskState
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.tasks import Finish, TaskContext, TaskWorker

T = TypeVar("T")


class Control(Enum):
    INBOX_OFF = "handlers take every delivery"
    RELAY_BEFORE_COMMIT = "events are published before their transaction is committed"
    MARK_BEFORE_PUBLISH = "outbox rows are marked as sent before they are"
    FENCE_OFF = "a worker whose claim was lost still finishes"


class NoInbox(Inbox):
    def seen(self, unit: Unit, ids: Collection[str]) -> set[str]:
        return set()

    def revisions(self, unit: Unit, subjects: Collection[str]) -> dict[str, int]:
        return {}

    def fence(self, unit: Unit, kind: Kind, events: Sequence[Event], known: Collection[str] = ()) -> None:
        return None


class EagerUnits(Units):
    """Publishes what a unit emitted before it is committed. `log` is the bare log: no port allows this."""

    log: EventLog | None = None

    def run(self, fn: Callable[[Unit], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        def work(unit: Unit) -> T:
            result = fn(unit)
            if self.log is not None:
                unit.write_events()
                self.log.append([row.record for row in outbox.unsent(unit, 1000)])
            return result

        return super().run(work, isolation=isolation)


class HastyRelay(Relay):
    """Marks first: what crashes in between is lost."""

    def publish(self, rows: list[Outgoing]) -> None:
        return None

    def mark(self, rows: list[Outgoing], lease: Lease) -> None:
        super().mark(rows, lease)
        super().publish(rows)


class _Deaf(TaskContext):
    """Never hears that its claim was lost."""

    def renew(self) -> None:
        return None


class UnfencedWorker(TaskWorker):
    context = _Deaf

    def finish(self, task: Task, finish: Finish) -> None:
        def work(unit: Unit) -> None:
            finish(unit)
            tasks = unit.tables.tasks
            unit.tx.execute(update(tasks).where(tasks.c.id == task.id).values(state=TaskState.DONE.value))

        self._host.units.run(work)
