"""Create the table of live fits."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "live_fits",
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("fitted_at", sa.BigInteger(), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
    )
