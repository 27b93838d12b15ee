"""Count skipped steps and note when ranks last computed."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("attempts", sa.Column("skipped", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("skipped_in_a_row", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("worked_at", sa.BigInteger(), server_default="0", nullable=False))
