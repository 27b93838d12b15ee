"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "datasets",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_table(
        "indexes",
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
    op.create_index(op.f("ix_indexes_state"), "indexes", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "tokenizations",
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
    op.create_index(op.f("ix_tokenizations_state"), "tokenizations", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "tokenizers",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
