"""Record the token with which a token or a login link was issued, and how long a session may last because of it."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    for table in ("tokens", "links", "sessions"):
        op.add_column(table, sa.Column("issuer", NAME, server_default="", nullable=False))
        op.create_index(f"ix_{table}_issuer", table, ["issuer"])
    op.add_column("sessions", sa.Column("until", sa.BigInteger(), nullable=True))
