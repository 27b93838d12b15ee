"""Create the tables of campaigns and judgements."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


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
        "guidelines",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "version"),
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
