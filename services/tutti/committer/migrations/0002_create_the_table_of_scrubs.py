"""Create the table of scrubs."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"
NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "scrubs",
        sa.Column("name", NAME, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("rate", sa.BigInteger(), nullable=False),
        sa.Column("running", sa.Text(), nullable=False),
        sa.Column("last", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
