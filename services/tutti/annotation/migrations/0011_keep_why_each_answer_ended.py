"""Keep why each answer of a pair ended."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0011"
down_revision = "0010"
NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    for name in ("first_stop", "second_stop"):
        op.add_column("pairs", sa.Column(name, NAME, server_default="end", nullable=False))
