"""Dead letters: events that a handler could not take, and what waits behind them.

Promises: a dead event parks its subject for its group; later events of that subject wait in order until it is replayed
or discarded.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, bindparam, delete, func, select, update

from tutti.backbone import Record
from tutti.chassis.store.statements import among, prepared
from tutti.chassis.store.tables import from_micros, micros
from tutti.chassis.store.unit import Unit

MAX_ERROR = 2000
MAX_NAME_BYTES = 1000
"""The most bytes of a text in an index, since Postgres accepts at most 2,704 bytes an entry."""


@dataclass(frozen=True)
class DeadLetter:
    """`error` None: parked behind a dead one. `parked` counts the events behind it."""

    seq: int
    group: str
    id: str
    type: str
    subject: str
    error: str | None
    died_at: datetime
    record: Record
    parked: int = 0


class DeadLetters:
    def __init__(self, group: str) -> None:
        self._group = group

    def dead(self, unit: Unit) -> list[DeadLetter]:
        """The dead ones, oldest first."""
        dead = unit.tables.dead_letters
        mine = dead.c.group_name == self._group
        query = select(dead).where(mine, dead.c.error.is_not(None)).order_by(dead.c.seq)
        behind = select(dead.c.subject, func.count().label("parked")).where(mine, dead.c.error.is_(None))
        parked = {row.subject: int(row.parked) for row in unit.tx.execute(behind.group_by(dead.c.subject))}
        return [_letter(row, parked.get(row.subject, 0)) for row in unit.tx.execute(query).all()]

    def parked(self, unit: Unit, subjects: Collection[str]) -> set[str]:
        """The parked ones among these subjects; locked, so that none is settled meanwhile."""
        wanted = {"mine": self._group, "subjects": sorted(subjects)}
        query = _parked(unit.tables.dead_letters, unit.tx.skip_locked)
        return set(unit.tx.execute(query, wanted).scalars()) if subjects else set()

    def holds(self, unit: Unit, ids: Collection[str]) -> set[str]:
        """The events among these that are dead or parked already."""
        wanted = {"mine": self._group, "ids": sorted(ids)}
        query = _held(unit.tables.dead_letters, unit.tx.skip_locked)
        return set(unit.tx.execute(query, wanted).scalars()) if ids else set()

    def add(self, unit: Unit, id: str, record: Record, error: str | None) -> None:
        row = {
            "group_name": self._group,
            "id": id,
            "type": storable(record.headers.get("ce_type", "")),
            "topic": record.topic,
            "subject": record.key,
            "headers": json.dumps(dict(record.headers)),
            "payload": record.value,
            "error": None if error is None else escaped(error)[:MAX_ERROR],
            "died_at": micros(unit.now),
        }
        unit.insert_new(unit.tables.dead_letters, [row])

    def find(self, unit: Unit, id: str) -> DeadLetter | None:
        """A dead one, by its event's id."""
        dead = unit.tables.dead_letters
        query = select(dead).where(dead.c.group_name == self._group, dead.c.id == id, dead.c.error.is_not(None))
        row = unit.tx.execute(query).first()
        return None if row is None else _letter(row, 0)

    def queue(self, unit: Unit, subject: str, limit: int) -> list[DeadLetter]:
        """The first dead and parked events of a subject in order, locked."""
        dead = unit.tables.dead_letters
        query = (
            select(dead)
            .where(dead.c.group_name == self._group, dead.c.subject == subject)
            .order_by(dead.c.seq)
            .limit(limit)
            .with_for_update()
        )
        return [_letter(row, 0) for row in unit.tx.execute(query).all()]

    def remove(self, unit: Unit, letter: DeadLetter) -> None:
        dead = unit.tables.dead_letters
        unit.tx.execute(delete(dead).where(dead.c.seq == letter.seq))

    def kill(self, unit: Unit, letter: DeadLetter, error: str) -> None:
        """Mark a parked event as dead, or as dead again."""
        dead = unit.tables.dead_letters
        unit.tx.execute(update(dead).where(dead.c.seq == letter.seq).values(error=escaped(error)[:MAX_ERROR]))


def escaped(text: str) -> str:
    """Return the text without the characters that Postgres does not store: NUL and halves of surrogate pairs."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def storable(text: str) -> str:
    """Return the text as every database can store and index it; the end of a long one is replaced by its digest."""
    text = escaped(text)
    data = text.encode()
    if len(data) <= MAX_NAME_BYTES:
        return text
    return f"{data[:MAX_NAME_BYTES].decode(errors='ignore')}...{hashlib.sha256(data).hexdigest()}"


@prepared
def _parked(dead: Table, arrays: bool) -> Select[Any]:
    mine = dead.c.group_name == bindparam("mine")
    query = select(dead.c.subject).where(mine, among(dead.c.subject, "subjects", arrays))
    return query.order_by(dead.c.seq).with_for_update()


@prepared
def _held(dead: Table, arrays: bool) -> Select[Any]:
    mine = dead.c.group_name == bindparam("mine")
    return select(dead.c.id).where(mine, among(dead.c.id, "ids", arrays))


def _letter(row: Any, parked: int) -> DeadLetter:
    record = Record(
        row.topic, -1, -1, row.subject, bytes(row.payload), json.loads(row.headers), int(row.died_at) // 1000
    )
    return DeadLetter(
        int(row.seq), row.group_name, row.id, row.type, row.subject, row.error, from_micros(row.died_at), record, parked
    )
