"""Add the tokens of users."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "tokens",
        sa.Column("digest", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index(op.f("ix_tokens_expires_at"), "tokens", ["expires_at"], unique=False)
    op.create_index(op.f("ix_tokens_user"), "tokens", ["user"], unique=False)
