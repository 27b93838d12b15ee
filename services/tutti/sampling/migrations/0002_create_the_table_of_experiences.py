"""Create the table of experiences."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "experiences",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("job", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
    )
    op.create_index(op.f("ix_experiences_job"), "experiences", ["job"], unique=False)
