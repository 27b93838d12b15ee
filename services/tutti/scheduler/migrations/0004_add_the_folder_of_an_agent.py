"""Add the state folder of an agent."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("agents", sa.Column("folder", sa.String(200), server_default="", nullable=False))
