"""Add the code that annotators are shown when they are done."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.add_column("annotators", sa.Column("code", NAME, server_default="", nullable=False))
