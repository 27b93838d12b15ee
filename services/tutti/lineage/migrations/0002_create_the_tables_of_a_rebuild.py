"""Create the tables of a rebuild."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.create_table(
        "lineage_doubted",
        sa.Column("part", sa.String(length=10), nullable=False),
        sa.Column("name", sa.String(length=400), nullable=False),
        sa.Column("other", sa.String(length=400), nullable=False),
        sa.PrimaryKeyConstraint("part", "name", "other"),
    )
    op.create_table(
        "lineage_unlisted",
        sa.Column("plural", sa.String(length=40), nullable=False),
        sa.Column("rebuild", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("plural"),
    )
