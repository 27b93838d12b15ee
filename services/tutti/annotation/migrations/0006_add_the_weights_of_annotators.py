"""Add the weights that owners give the judgements of annotators."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("annotators", sa.Column("weight", sa.Float(53), server_default="1", nullable=False))
    op.add_column("annotators", sa.Column("weight_reason", sa.Text(), server_default="", nullable=False))
