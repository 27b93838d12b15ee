"""Count the choices of reservations."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("reservations", sa.Column("answers", sa.BigInteger(), server_default="1", nullable=False))
