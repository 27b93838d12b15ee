"""Record all users of checkpoints, not deployments alone."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "uses",
        sa.Column("used_by", NAME, nullable=False),
        sa.Column("checkpoint", NAME, nullable=False),
        sa.PrimaryKeyConstraint("used_by", "checkpoint"),
    )
    op.execute("INSERT INTO uses (used_by, checkpoint) SELECT deployment, checkpoint FROM served")
    op.drop_table("served")
