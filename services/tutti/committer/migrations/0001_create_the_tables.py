"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None
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
        "checkpoints",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("job", NAME, nullable=True),
        sa.Column("line", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_checkpoints_job"), "checkpoints", ["job"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_checkpoints_line"), "checkpoints", ["line"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_checkpoints_state"), "checkpoints", ["state"], unique=False, if_not_exists=True)
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
        "decisions",
        sa.Column("name", NAME, nullable=False),
        sa.Column("job", NAME, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state_digest", NAME, nullable=False),
        sa.Column("manifest_key", NAME, nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("published", sa.Integer(), nullable=False),
        sa.Column("pruned_at", sa.BigInteger(), nullable=True),
        sa.Column("swept", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_index("decisions_job", "decisions", ["job", "line", "step"], unique=False, if_not_exists=True)
    op.create_table(
        "divergences",
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state_digest", NAME, nullable=False),
        sa.PrimaryKeyConstraint("name", "epoch"),
        if_not_exists=True,
    )
    op.create_table(
        "epochs",
        sa.Column("job", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("base", sa.BigInteger(), nullable=False),
        sa.Column("parent", NAME, nullable=False),
        sa.Column("ranks", sa.BigInteger(), nullable=False),
        sa.Column("shape_digest", NAME, nullable=False),
        sa.Column("training", sa.Text(), nullable=False),
        sa.Column("training_digest", NAME, nullable=False),
        sa.Column("dataset_digest", NAME, nullable=False),
        sa.Column("request_digest", NAME, nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("job"),
        if_not_exists=True,
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
        "lines",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("job", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_lines_job"), "lines", ["job"], unique=False, if_not_exists=True)
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
        "remains",
        sa.Column("job", NAME, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job"),
        if_not_exists=True,
    )
    op.create_table(
        "shards",
        sa.Column("name", NAME, nullable=False),
        sa.Column("job", NAME, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("node", NAME, nullable=False),
        sa.Column("report_key", NAME, nullable=False),
        sa.Column("report_digest", NAME, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("claimed_until", sa.BigInteger(), nullable=False),
        sa.Column("verifier", NAME, nullable=False),
        sa.Column("process", NAME, nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_index("shards_state", "shards", ["state", "step"], unique=False, if_not_exists=True)
    op.create_index("shards_step", "shards", ["job", "epoch", "line", "step"], unique=False, if_not_exists=True)
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
