"""Record if work was asked for with a token of the file `tokens`, for which files are read: NULL is unknown."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("origins", sa.Column("owner", sa.BigInteger(), nullable=True))
