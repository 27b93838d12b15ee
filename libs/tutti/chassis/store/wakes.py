"""Wakes: names that a replica which does not lead hands to the leader of its service.

Promises: a name that was put is taken by whoever leads next, once; it is a row of `tasks` that no worker claims, with
the cause of whoever put it.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from tutti.backbone.database import Conflict
from tutti.chassis.identity.cause import Cause
from tutti.chassis.store import origins
from tutti.chassis.store.tables import micros

if TYPE_CHECKING:
    from tutti.chassis.store.unit import Unit

PREFIX = "wake of "


def put(unit: "Unit", loop: str, names: Mapping[str, Cause]) -> None:
    """Leave names for the leader's loop of this name."""
    for name, cause in sorted(names.items()):
        row = {
            "id": f"{PREFIX}{loop}/{name}",
            "kind": PREFIX + loop,
            "resource": name,
            "payload": b"",
            "request_id": cause.request_id,
            "traceparent": cause.traceparent,
            "state": "waiting",
            "holder": "",
            "reason": "",
            "made_at": micros(unit.now),
            **dict.fromkeys(("attempt", "failures", "lapses", "epoch", "renewals", "ttl", "expires_at", "due_at"), 0),
        }
        try:
            unit.savepoint(lambda row=row: unit.tx.execute(insert(unit.tables.tasks), row))  # type: ignore[misc]
        except Conflict:
            continue  # one that was not taken yet


def take(unit: "Unit", loops: Iterable[str]) -> list[tuple[str, str, Cause]]:
    """Remove what was left for these loops: (loop, name, cause)."""
    tasks, kinds = unit.tables.tasks, {PREFIX + loop: loop for loop in loops}
    mine = tasks.c.kind.in_(sorted(kinds))
    if unit.tx.execute(select(tasks.c.id).where(mine).limit(1)).first() is None:
        return []
    columns = (tasks.c.kind, tasks.c.resource, tasks.c.request_id, tasks.c.traceparent)
    rows = unit.tx.execute(delete(tasks).where(mine).returning(*columns)).all()
    return [
        (
            kinds[row.kind],
            row.resource,
            Cause(row.request_id, row.traceparent, principal=origins.find(unit, row.resource)),
        )
        for row in rows
    ]
