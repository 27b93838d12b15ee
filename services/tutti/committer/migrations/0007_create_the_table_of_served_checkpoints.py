"""Create the table of served checkpoints."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "served",
        sa.Column("deployment", NAME, nullable=False),
        sa.Column("checkpoint", NAME, nullable=False),
        sa.PrimaryKeyConstraint("deployment"),
    )
