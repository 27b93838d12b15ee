"""The inbox: which events a group has handled, so that none takes effect twice.

Promises: the fence is written in the transaction of the effect, under a unique key (FACT) or a row lock (STATE), so two
members that got the same event cannot both commit its effect.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, Update, bindparam, delete, func, insert, select, true, update
from sqlalchemy.dialects.postgresql import ARRAY

from tutti.backbone import Kind
from tutti.chassis.events.event import Event
from tutti.chassis.store.statements import among, prepared
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit


class Inbox:
    def __init__(self, group: str) -> None:
        self._group = group

    def seen(self, unit: Unit, ids: Collection[str]) -> set[str]:
        """The facts among these that have been handled."""
        wanted = {"mine": self._group, "ids": sorted(ids)}
        return set(unit.tx.execute(_seen(unit.tables.inbox, unit.tx.skip_locked), wanted).scalars()) if ids else set()

    def revisions(self, unit: Unit, subjects: Collection[str]) -> dict[str, int]:
        """The highest handled revision of each of these subjects; their rows stay locked."""
        wanted = {"mine": self._group, "subjects": sorted(subjects)}
        rows = unit.tx.execute(_revisions(unit.tables.inbox_states, unit.tx.skip_locked), wanted) if subjects else ()
        return {row.subject: int(row.revision) for row in rows}

    def fence(self, unit: Unit, kind: Kind, events: Sequence[Event], known: Collection[str] = ()) -> None:
        """Record that these are handled, before they are. Raises Conflict when another member came first.

        `known` are the subjects of states that `revisions` returned in this unit, or that it fenced since.
        """
        if kind is Kind.FACT:
            rows = [{"group_name": self._group, "id": each.id, "seen_at": micros(unit.now)} for each in events]
            unit.tx.insert(unit.tables.inbox, rows)
            return
        states = unit.tables.inbox_states
        highest = {each.subject: each.revision for each in sorted(events, key=lambda each: each.revision)}
        if again := sorted(highest.keys() & set(known)):
            found = [{"mine": self._group, "wanted": each, "revision": highest[each]} for each in again]
            unit.tx.execute(_handled(states), found)
        if new := sorted(highest.keys() - set(known)):
            rows = [{"group_name": self._group, "subject": each, "revision": highest[each]} for each in new]
            unit.tx.insert(states, rows)

    def fence_id(self, unit: Unit, id: str) -> None:
        """Record that this is handled though nobody could read it."""
        row = {"group_name": self._group, "id": id, "seen_at": micros(unit.now)}
        unit.tx.execute(insert(unit.tables.inbox), row)

    def prune(self, unit: Unit, before: datetime) -> int:
        """Forget facts seen before then: older than their topic's retention, except those of dead letters."""
        inbox, dead = unit.tables.inbox, unit.tables.dead_letters
        kept = select(dead.c.id).where(dead.c.group_name == self._group)
        return unit.tx.execute(
            delete(inbox).where(
                inbox.c.group_name == self._group, inbox.c.seen_at < micros(before), inbox.c.id.not_in(kept)
            )
        ).rowcount


@prepared
def _seen(inbox: Table, arrays: bool) -> Select[Any]:
    """On Postgres each id is looked up by its key. In the first minute of a table, before it has statistics, Postgres
    would otherwise read all rows of the group.
    """
    mine = inbox.c.group_name == bindparam("mine")
    if not arrays:
        return select(inbox.c.id).where(mine, inbox.c.id.in_(bindparam("ids")))
    wanted = func.unnest(bindparam("ids", type_=ARRAY(inbox.c.id.type))).column_valued("wanted")
    return select(wanted).where(select(true()).where(mine, inbox.c.id == wanted).scalar_subquery())


@prepared
def _revisions(states: Table, arrays: bool) -> Select[Any]:
    return (
        select(states.c.subject, states.c.revision)
        .where(states.c.group_name == bindparam("mine"), among(states.c.subject, "subjects", arrays))
        .order_by(states.c.subject)
        .with_for_update()
    )


@prepared
def _handled(states: Table) -> Update:
    return update(states).where(states.c.group_name == bindparam("mine"), states.c.subject == bindparam("wanted"))
