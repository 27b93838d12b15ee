"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "answers",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("deployment", NAME, nullable=True),
        sa.Column("user", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_answers_deployment"), "answers", ["deployment"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_answers_user"), "answers", ["user"], unique=False, if_not_exists=True)
    op.create_table(
        "deployments",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.Column("checkpoint", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_deployments_checkpoint"), "deployments", ["checkpoint"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_deployments_state"), "deployments", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "generations",
        sa.Column("answer", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("deployment", NAME, nullable=False),
        sa.Column("checkpoint", NAME, nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("begun_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("answer"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_generations_begun_at"), "generations", ["begun_at"], unique=False, if_not_exists=True)
    op.create_table(
        "said_tokens",
        sa.Column("answer", NAME, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("ids", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("answer", "at"),
        if_not_exists=True,
    )
