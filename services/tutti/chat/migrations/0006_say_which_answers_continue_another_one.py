"""Say which answers continue another one."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.add_column("conversation_messages", sa.Column("given", sa.BigInteger(), server_default="0", nullable=False))
