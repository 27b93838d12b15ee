"""Create the table of the tries of a gate."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0005"
down_revision = "0004"
NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "gate_tries",
        sa.Column("candidate", NAME, nullable=False),
        sa.Column("baseline", NAME, nullable=False),
        sa.Column("judged", NAME, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("candidate", "baseline", "judged"),
    )
