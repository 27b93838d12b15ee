"""Add the kind of a token, who issued it, and when it was revoked or used."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.add_column("tokens", sa.Column("kind", sa.BigInteger(), server_default="1", nullable=False))
    op.add_column("tokens", sa.Column("created_by", NAME, server_default="", nullable=False))
    op.add_column("tokens", sa.Column("created_at", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("tokens", sa.Column("revoked_at", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("used_by", NAME, server_default="", nullable=False))
