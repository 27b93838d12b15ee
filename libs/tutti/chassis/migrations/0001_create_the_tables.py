"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade(op: Operations) -> None:
    op.create_table(
        "audit",
        sa.Column("seq", SERIAL, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("method", NAME, nullable=False),
        sa.Column("action", NAME, nullable=False),
        sa.Column("resource", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("outcome", NAME, nullable=False),
        sa.Column("reason", NAME, nullable=False),
        sa.Column("address", NAME, nullable=False),
        sa.Column("times", sa.BigInteger(), nullable=False),
        sa.Column("fold", NAME, nullable=True),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("fold"),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False, if_not_exists=True)
    op.create_table(
        "audit_seals",
        sa.Column("place", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.PrimaryKeyConstraint("place", "digest"),
        if_not_exists=True,
    )
    op.create_table(
        "dead_letters",
        sa.Column("seq", SERIAL, autoincrement=True, nullable=False),
        sa.Column("group_name", NAME, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("type", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("died_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("group_name", "id"),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
    op.create_index(
        "dead_letters_subject", "dead_letters", ["group_name", "subject", "seq"], unique=False, if_not_exists=True
    )
    op.create_table(
        "inbox",
        sa.Column("group_name", NAME, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("group_name", "id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_inbox_seen_at"), "inbox", ["seen_at"], unique=False, if_not_exists=True)
    op.create_table(
        "inbox_states",
        sa.Column("group_name", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("group_name", "subject"),
        if_not_exists=True,
    )
    op.create_table(
        "leases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("ttl", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "origins",
        sa.Column("name", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "outbox",
        sa.Column("seq", SERIAL, autoincrement=True, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("type", NAME, nullable=False),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
    op.create_index("outbox_made", "outbox", ["made_at"], unique=False, if_not_exists=True)
    op.create_index("outbox_subject", "outbox", ["topic", "subject", "seq"], unique=False, if_not_exists=True)
    op.create_index(
        "outbox_unsent",
        "outbox",
        ["seq"],
        unique=False,
        sqlite_where=sa.text("sent_at IS NULL"),
        postgresql_where=sa.text("sent_at IS NULL"),
        if_not_exists=True,
    )
    op.create_table(
        "scrubs",
        sa.Column("name", NAME, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("rate", sa.BigInteger(), nullable=False),
        sa.Column("running", sa.Text(), nullable=False),
        sa.Column("last", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "task_progress",
        sa.Column("id", NAME, nullable=False),
        sa.Column("resource", NAME, nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("unit", NAME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_task_progress_resource"), "task_progress", ["resource"], unique=False, if_not_exists=True)
    op.create_table(
        "tasks",
        sa.Column("id", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("resource", NAME, nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("request_id", NAME, nullable=False),
        sa.Column("traceparent", NAME, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("lapses", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", NAME, nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("ttl", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_tasks_resource"), "tasks", ["resource"], unique=False, if_not_exists=True)
    op.create_index("tasks_due", "tasks", ["state", "due_at"], unique=False, if_not_exists=True)
