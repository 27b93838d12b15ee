"""Effects: a row for every event that a handler took and every task that was finished, in the same transaction.

Promises: what was committed twice is found, whatever the service did.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import BigInteger, Column, MetaData, Table, insert, select

from tutti.backbone import Kind, Transaction
from tutti.chassis.events.catalog import event_type
from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed, Service, TaskKind
from tutti.chassis.store.tables import NAME, SERIAL, declare
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, TaskContext

TASKS = "tasks"
EFFECTS = "simulated_effects"
"""The table of them."""


@dataclass(frozen=True)
class Effect:
    """`group` is that of the consumer, or TASKS; `revision` is 0 but for a STATE event."""

    group: str
    id: str
    subject: str
    revision: int


def table(metadata: MetaData) -> Table:
    return declare(
        EFFECTS,
        metadata,
        Column("seq", SERIAL, primary_key=True, autoincrement=True),
        Column("group_name", NAME, nullable=False),
        Column("id", NAME, nullable=False),
        Column("subject", NAME, nullable=False),
        Column("revision", BigInteger, nullable=False),
    )


def observed(service: Service, effects: Table) -> Service:
    """The same service, whose effects are written down."""
    consumes = [_observed_handler(each, service.name, effects) for each in service.consumes]
    tasks = [_observed_task(each, effects) for each in service.tasks]
    return replace(service, consumes=consumes, tasks=tasks)


def read(tx: Transaction, effects: Table) -> list[Effect]:
    rows = tx.execute(select(effects).order_by(effects.c.seq)).all()
    return [Effect(row.group_name, row.id, row.subject, int(row.revision)) for row in rows]


def _observed_handler(consumed: Consumed, group: str, effects: Table) -> Consumed:
    state = event_type(consumed.message).kind is Kind.STATE

    def handler(unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            _write(unit, effects, Effect(group, event.id, event.subject, event.revision if state else 0))
        consumed.handler(unit, events)

    return replace(consumed, handler=handler)


def _observed_task(kind: TaskKind, effects: Table) -> TaskKind:
    def run(context: TaskContext) -> Finish:
        finish = kind.run(context)

        def both(unit: Unit) -> None:
            _write(unit, effects, Effect(TASKS, context.task.id, context.task.resource, 0))
            finish(unit)

        return both

    return replace(kind, run=run)


def _write(unit: Unit, effects: Table, effect: Effect) -> None:
    row = {"group_name": effect.group, "id": effect.id, "subject": effect.subject, "revision": effect.revision}
    unit.tx.execute(insert(effects), row)
