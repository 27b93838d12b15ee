"""Create the tables of campaigns and judgements."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None
NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade(op: Operations) -> None:
    op.create_table(
        "annotators",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("guideline", NAME, nullable=False),
        sa.Column("places", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "key"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_annotators_user"), "annotators", ["user"], unique=False, if_not_exists=True)
    op.create_table(
        "assignments",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("annotator", NAME, nullable=False),
        sa.Column("pair", NAME, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("judgement", NAME, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "annotator", "pair"),
        if_not_exists=True,
    )
    op.create_index(
        "assignments_open", "assignments", ["campaign", "state", "expires_at"], unique=False, if_not_exists=True
    )
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
        "campaign_texts",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("pairs", sa.Text(), nullable=False),
        sa.Column("qualifying", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
        if_not_exists=True,
    )
    op.create_table(
        "campaigns",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_campaigns_state"), "campaigns", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "comments",
        sa.Column("judgement", NAME, nullable=False),
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("judgement"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_comments_campaign"), "comments", ["campaign"], unique=False, if_not_exists=True)
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
        "guidelines",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "version"),
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
        "judgements",
        sa.Column("id", NAME, nullable=False),
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("annotator", NAME, nullable=False),
        sa.Column("pair", NAME, nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("flipped", sa.Boolean(), nullable=False),
        sa.Column("scores", sa.Text(), nullable=False),
        sa.Column("said", NAME, nullable=False),
        sa.Column("guideline", NAME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("shown_ms", sa.BigInteger(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("supersedes", NAME, nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index(
        "judgements_campaign", "judgements", ["campaign", "annotator", "kind"], unique=False, if_not_exists=True
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
        "pairs",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("first", sa.Text(), nullable=False),
        sa.Column("second", sa.Text(), nullable=False),
        sa.Column("first_source", NAME, nullable=False),
        sa.Column("second_source", NAME, nullable=False),
        sa.Column("base", sa.Integer(), nullable=False),
        sa.Column("better", NAME, nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("needed", sa.Integer(), nullable=False),
        sa.Column("given", sa.Integer(), nullable=False),
        sa.Column("judged", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "id"),
        if_not_exists=True,
    )
    op.create_index("pairs_counts", "pairs", ["campaign", "kind", "needed", "judged"], unique=False, if_not_exists=True)
    op.create_index("pairs_number", "pairs", ["campaign", "kind", "number"], unique=False, if_not_exists=True)
    op.create_index(
        "pairs_open",
        "pairs",
        ["campaign", "kind", "number"],
        unique=False,
        sqlite_where=sa.text("given < needed"),
        postgresql_where=sa.text("given < needed"),
        if_not_exists=True,
    )
    op.create_table(
        "preferences",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_preferences_state"), "preferences", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "rate_limits",
        sa.Column("key", NAME, nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_rate_limits_arrival"), "rate_limits", ["arrival"], unique=False, if_not_exists=True)
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
