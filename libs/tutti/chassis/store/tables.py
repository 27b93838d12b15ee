"""The chassis' own tables, beside those of every service.

Promises: one set a MetaData; times are integers (microseconds UTC), names sort by their bytes on every adapter.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.schema import SchemaItem

NAME = String().with_variant(String(collation="C"), "postgresql")
SERIAL = BigInteger().with_variant(Integer, "sqlite")
_KEY, _SHARED = "tutti.chassis", "tutti.shared"


@dataclass(frozen=True)
class Tables:
    outbox: Table
    inbox: Table
    inbox_states: Table
    dead_letters: Table
    leases: Table
    tasks: Table
    task_progress: Table
    audit: Table
    audit_seals: Table
    origins: Table
    scrubs: Table


def declare(name: str, metadata: MetaData, *parts: SchemaItem, **options: Any) -> Table:
    """A table of a service. A second one of the same name is an error, unless lives share the MetaData."""
    return Table(name, metadata, *parts, keep_existing=_SHARED in metadata.info, **options)


def shared() -> MetaData:
    """For all lives of one service in this process (simulation): over new tables every statement is compiled anew."""
    return MetaData(info={_SHARED: True})


def tables_of(metadata: MetaData) -> Tables:
    """The chassis' tables in this MetaData, made at the first call."""
    found: Tables | None = metadata.info.get(_KEY)
    if found is None:
        found = metadata.info[_KEY] = Tables(
            _outbox(metadata),
            _inbox(metadata),
            _inbox_states(metadata),
            _dead_letters(metadata),
            _leases(metadata),
            _tasks(metadata),
            _task_progress(metadata),
            _audit(metadata),
            _audit_seals(metadata),
            _origins(metadata),
            _scrubs(metadata),
        )
    return found


def micros(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000)


def from_micros(value: int) -> datetime:
    return datetime.fromtimestamp(value / 1_000_000, UTC)


def _outbox(metadata: MetaData) -> Table:
    outbox = Table(
        "outbox",
        metadata,
        Column("seq", SERIAL, primary_key=True, autoincrement=True),
        Column("id", NAME, nullable=False, unique=True),
        Column("type", NAME, nullable=False),
        Column("topic", NAME, nullable=False),
        Column("kind", NAME, nullable=False),
        Column("subject", NAME, nullable=False),
        Column("revision", BigInteger, nullable=False),
        Column("made_at", BigInteger, nullable=False),
        Column("headers", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("sent_at", BigInteger),
        sqlite_autoincrement=True,
    )
    unsent = outbox.c.sent_at.is_(None)
    Index("outbox_unsent", outbox.c.seq, sqlite_where=unsent, postgresql_where=unsent)
    Index("outbox_subject", outbox.c.topic, outbox.c.subject, outbox.c.seq)
    Index("outbox_made", outbox.c.made_at)
    return outbox


def _inbox(metadata: MetaData) -> Table:
    return Table(
        "inbox",
        metadata,
        Column("group_name", NAME, primary_key=True),
        Column("id", NAME, primary_key=True),
        Column("seen_at", BigInteger, nullable=False, index=True),
    )


def _inbox_states(metadata: MetaData) -> Table:
    return Table(
        "inbox_states",
        metadata,
        Column("group_name", NAME, primary_key=True),
        Column("subject", NAME, primary_key=True),
        Column("revision", BigInteger, nullable=False),
    )


def _dead_letters(metadata: MetaData) -> Table:
    """A row with an error is dead, one without is parked behind a dead one of the same subject."""
    return Table(
        "dead_letters",
        metadata,
        Column("seq", SERIAL, primary_key=True, autoincrement=True),
        Column("group_name", NAME, nullable=False),
        Column("id", NAME, nullable=False),
        Column("type", NAME, nullable=False),
        Column("topic", NAME, nullable=False),
        Column("subject", NAME, nullable=False),
        Column("headers", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("error", Text),
        Column("died_at", BigInteger, nullable=False),
        UniqueConstraint("group_name", "id"),
        Index("dead_letters_subject", "group_name", "subject", "seq"),
        sqlite_autoincrement=True,
    )


def _leases(metadata: MetaData) -> Table:
    """`renewals` lets an observer without a common clock see that a lease is alive; an empty holder is nobody."""
    return Table(
        "leases",
        metadata,
        Column("name", NAME, primary_key=True),
        Column("holder", NAME, nullable=False),
        Column("epoch", BigInteger, nullable=False),
        Column("renewals", BigInteger, nullable=False),
        Column("ttl", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
    )


def _tasks(metadata: MetaData) -> Table:
    """`attempt` counts claims, `failures` those that count against the kind's attempts, `lapses` lost holders;
    `request_id` and `traceparent` are what the task is an effect of."""
    return Table(
        "tasks",
        metadata,
        Column("id", NAME, primary_key=True),
        Column("kind", NAME, nullable=False),
        Column("resource", NAME, nullable=False, index=True),
        Column("payload", LargeBinary, nullable=False),
        Column("request_id", NAME, nullable=False),
        Column("traceparent", NAME, nullable=False),
        Column("state", NAME, nullable=False),
        Column("attempt", BigInteger, nullable=False),
        Column("failures", BigInteger, nullable=False),
        Column("lapses", BigInteger, nullable=False),
        Column("epoch", BigInteger, nullable=False),
        Column("holder", NAME, nullable=False),
        Column("renewals", BigInteger, nullable=False),
        Column("ttl", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        Column("due_at", BigInteger, nullable=False),
        Column("made_at", BigInteger, nullable=False),
        Column("reason", Text, nullable=False),
        Index("tasks_due", "state", "due_at"),
    )


def _task_progress(metadata: MetaData) -> Table:
    """The progress of tasks that reported it; a row is deleted with its task."""
    return Table(
        "task_progress",
        metadata,
        Column("id", NAME, primary_key=True),
        Column("resource", NAME, nullable=False, index=True),
        Column("done", BigInteger, nullable=False),
        Column("total", BigInteger, nullable=False),
        Column("unit", NAME, nullable=False),
    )


def _audit(metadata: MetaData) -> Table:
    """`fold` is set for refusals, so that repetitions within a minute are counted in one row; `times` counts them."""
    return Table(
        "audit",
        metadata,
        Column("seq", SERIAL, primary_key=True, autoincrement=True),
        Column("at", BigInteger, nullable=False, index=True),
        Column("user", NAME, nullable=False),
        Column("tenant", NAME, nullable=False),
        Column("method", NAME, nullable=False),
        Column("action", NAME, nullable=False),
        Column("resource", NAME, nullable=False),
        Column("revision", BigInteger, nullable=False),
        Column("outcome", NAME, nullable=False),
        Column("reason", NAME, nullable=False),
        Column("address", NAME, nullable=False),
        Column("times", BigInteger, nullable=False),
        Column("fold", NAME, unique=True),
        sqlite_autoincrement=True,
    )


def _audit_seals(metadata: MetaData) -> Table:
    """The head of the chain of batches (place `head`, its number and digest), and acknowledged differences."""
    return Table(
        "audit_seals",
        metadata,
        Column("place", NAME, primary_key=True),
        Column("digest", NAME, primary_key=True),
    )


def _origins(metadata: MetaData) -> Table:
    """On whose behalf a resource was created, or a task enqueued (as `tasks/ID`).

    `owner` is 1 if a token of the file `tokens` asked for it, 0 if not, NULL in rows of version 0.2.0.
    """
    return Table(
        "origins",
        metadata,
        Column("name", NAME, primary_key=True),
        Column("user", NAME, nullable=False),
        Column("tenant", NAME, nullable=False),
        Column("owner", BigInteger),
    )


def _scrubs(metadata: MetaData) -> Table:
    """One row: since when there is one, the scrub that was asked for, the one that runs and the last one that ended, as
    JSON; `rate` is the read rate in bytes a second that was asked for, negative for that of the settings."""
    return Table(
        "scrubs",
        metadata,
        Column("name", NAME, primary_key=True),
        Column("since", BigInteger, nullable=False),
        Column("asked_at", BigInteger, nullable=False),
        Column("rate", BigInteger, nullable=False),
        Column("running", Text, nullable=False),
        Column("last", Text, nullable=False),
    )
