"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "cancels",
        sa.Column("run", sa.String(length=400), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run"),
        if_not_exists=True,
    )
    op.create_table(
        "results",
        sa.Column("reuse_key", sa.String(length=100), nullable=False),
        sa.Column("resource", sa.String(length=400), nullable=False),
        sa.Column("manifest_key", sa.Text(), nullable=False),
        sa.Column("content_digest", sa.String(length=100), nullable=False),
        sa.PrimaryKeyConstraint("reuse_key"),
        if_not_exists=True,
    )
    op.create_table(
        "runs",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.Column("recipe_digest", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_runs_recipe_digest"), "runs", ["recipe_digest"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_runs_state"), "runs", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "sources",
        sa.Column("run", sa.String(length=400), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("input_digest", sa.String(length=100), nullable=False),
        sa.Column("logic_version", sa.String(length=100), nullable=False),
        sa.PrimaryKeyConstraint("run"),
        if_not_exists=True,
    )
