"""Create the table of audit seals."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0004"
down_revision = "0003"
NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "audit_seals",
        sa.Column("place", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.PrimaryKeyConstraint("place", "digest"),
    )
