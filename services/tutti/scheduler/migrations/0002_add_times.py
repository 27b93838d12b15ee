"""Add the times of a job's history and steps."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("attempts", sa.Column("first_step", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("first_at", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("step_at", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("job_history", sa.Column("at", sa.BigInteger(), server_default="0", nullable=False))
