"""Add the table of idempotency keys, and the log-probabilities of tokens that were asked for."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.add_column("said_tokens", sa.Column("scores", sa.LargeBinary(), nullable=True))
    op.create_table(
        "answer_keys",
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("answers", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user", "key"),
    )
    op.create_index(op.f("ix_answer_keys_begun_at"), "answer_keys", ["begun_at"], unique=False)
