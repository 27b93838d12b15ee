"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "links",
        sa.Column("digest", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_by", NAME, nullable=False),
        sa.PrimaryKeyConstraint("digest"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_links_expires_at"), "links", ["expires_at"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_links_user"), "links", ["user"], unique=False, if_not_exists=True)
    op.create_table(
        "people",
        sa.Column("user", NAME, nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("user"),
        if_not_exists=True,
    )
    op.create_table(
        "rate_limits",
        sa.Column("key", NAME, nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_rate_limits_arrival"), "rate_limits", ["arrival"], unique=False, if_not_exists=True)
    op.create_table(
        "sessions",
        sa.Column("id", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("current", NAME, nullable=False),
        sa.Column("previous", NAME, nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("rotated_at", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_at", sa.BigInteger(), nullable=True),
        sa.Column("ended", NAME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("current"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_sessions_previous"), "sessions", ["previous"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_sessions_seen_at"), "sessions", ["seen_at"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_sessions_user"), "sessions", ["user"], unique=False, if_not_exists=True)
    op.create_table(
        "users",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.Column("tenant", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_users_state"), "users", ["state"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_users_tenant"), "users", ["tenant"], unique=False, if_not_exists=True)
