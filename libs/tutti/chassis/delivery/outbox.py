"""The outbox: events of a service that wait for the relay, and those that it sent.

Promises: rows of a subject are read in the order of its revisions; nothing is found by `id > last_seen`; marking is
fenced by the relay's lease; sent rows are kept for the retention and can be sent again under the same ids.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, Table, Update, bindparam, delete, func, select, update

from tutti.backbone.eventlog import Kind, NewRecord
from tutti.chassis.events.event import DIGEST, digest_of
from tutti.chassis.store.leases import Lease
from tutti.chassis.store.statements import among, prepared
from tutti.chassis.store.tables import from_micros, micros

if TYPE_CHECKING:
    from tutti.chassis.store.unit import Unit


@dataclass(frozen=True)
class Outgoing:
    """A row: `seq` grows with the revisions of a subject, since its row was locked when it was drawn. FACTs of rows
    lock nothing, and have no order.
    """

    seq: int
    id: str
    type: str
    kind: Kind
    revision: int
    made_at: datetime
    sent: bool
    record: NewRecord


def unsent(unit: "Unit", limit: int) -> list[Outgoing]:
    return [_outgoing(row) for row in unit.tx.execute(_unsent(unit.tables.outbox), {"most": limit}).all()]


def count_unsent(unit: "Unit") -> int:
    outbox = unit.tables.outbox
    query = select(func.count()).select_from(outbox).where(outbox.c.sent_at.is_(None))
    return int(unit.tx.execute(query).scalar_one())


def sequence_of(unit: "Unit", event_id: str) -> int | None:
    """Return the seq of the event with this id; None where there is none, or none any more."""
    outbox = unit.tables.outbox
    row = unit.tx.execute(select(outbox.c.seq).where(outbox.c.id == event_id)).first()
    return int(row.seq) if row else None


def tail(unit: "Unit", *, after: int = 0, limit: int = 100, subject: str = "") -> list[Outgoing]:
    """The newest `limit` rows in order (after 0), or the next ones after that seq; `subject`: of this resource alone.

    For people: a row that commits late may be passed over.
    """
    outbox = unit.tables.outbox
    query = select(outbox).where(outbox.c.seq > after).limit(limit)
    query = query.where(outbox.c.subject == subject) if subject else query
    query = query.order_by(outbox.c.seq) if after else query.order_by(outbox.c.seq.desc())
    rows = [_outgoing(row) for row in unit.tx.execute(query).all()]
    return rows if after else rows[::-1]


def mark_sent(unit: "Unit", rows: Sequence[Outgoing], lease: Lease) -> None:
    """Raises FencedOff when the lease was lost."""
    unit.fence(lease)
    marked = _marked(unit.tables.outbox, unit.tx.skip_locked)
    unit.tx.execute(marked, {"sent": [row.seq for row in rows], "at": micros(unit.now)})


def send_newest_again(unit: "Unit", rows: Sequence[Outgoing]) -> None:
    """Queue the newest snapshots of what was just sent without the lease.

    Compaction keeps the last record of a key, and a snapshot that was sent late may now be behind a newer one.
    """
    outbox, unit.emitted = unit.tables.outbox, True
    for topic in sorted({row.record.topic for row in rows if row.kind is Kind.STATE}):
        subjects = sorted({row.record.key for row in rows if row.record.topic == topic})
        newest = (
            select(func.max(outbox.c.seq))
            .where(outbox.c.topic == topic, outbox.c.subject.in_(subjects))
            .group_by(outbox.c.subject)
        )
        unit.tx.execute(update(outbox).where(outbox.c.seq.in_(newest)).values(sent_at=None))


def send_again(unit: "Unit", event_id: str) -> bool:
    """Queue an event to be sent again under the same id, or a newer snapshot of its resource; False where its row is
    gone, or has no longer the digest that it was written with."""
    outbox = unit.tables.outbox
    row = unit.tx.execute(select(outbox).where(outbox.c.id == event_id)).first()
    if row is None:
        return False
    try:
        found = _outgoing(row)
    except ValueError:  # its headers, or its kind, are damaged
        return False
    if digest_of(found.record.headers, found.record.value) != found.record.headers.get(DIGEST):
        return False
    if found.kind is Kind.STATE:
        send_newest_again(unit, [found])
    else:
        unit.emitted = True
        unit.tx.execute(update(outbox).where(outbox.c.id == event_id).values(sent_at=None))
    return True


def republish(unit: "Unit", since: datetime, *, validate_only: bool = False) -> int:
    """Queue what was made since then to be sent again under the same ids; how many."""
    outbox = unit.tables.outbox
    made_since = outbox.c.made_at >= micros(since)
    if validate_only:
        return int(unit.tx.execute(select(func.count()).select_from(outbox).where(made_since)).scalar_one())
    unit.emitted = True
    return unit.tx.execute(update(outbox).where(made_since).values(sent_at=None)).rowcount


def prune(unit: "Unit", before: datetime) -> int:
    """Delete sent rows made before then; the newest snapshot of a resource stays."""
    outbox = unit.tables.outbox
    newest = (
        select(func.max(outbox.c.seq))
        .where(outbox.c.kind == Kind.STATE.value)
        .group_by(outbox.c.topic, outbox.c.subject)
    )
    old = outbox.c.made_at < micros(before)
    return unit.tx.execute(
        delete(outbox).where(old, outbox.c.sent_at.is_not(None), outbox.c.seq.not_in(newest))
    ).rowcount


@prepared
def _unsent(outbox: Table) -> Select[Any]:
    return select(outbox).where(outbox.c.sent_at.is_(None)).order_by(outbox.c.seq).limit(bindparam("most"))


@prepared
def _marked(outbox: Table, arrays: bool) -> Update:
    return update(outbox).where(among(outbox.c.seq, "sent", arrays)).values(sent_at=bindparam("at"))


def _outgoing(row: Any) -> Outgoing:
    return Outgoing(
        seq=int(row.seq),
        id=row.id,
        type=row.type,
        kind=Kind(row.kind),
        revision=int(row.revision),
        made_at=from_micros(row.made_at),
        sent=row.sent_at is not None,
        record=NewRecord(row.topic, row.subject, bytes(row.payload), json.loads(row.headers)),
    )
