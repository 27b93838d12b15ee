"""Create the tables of convictions."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.create_table(
        "convictions",
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("node", "device", "job", "epoch"),
    )
    op.create_table(
        "disagreements",
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=False),
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("partner_node", sa.String(length=200), nullable=False),
        sa.Column("partner_device", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("node", "device", "job", "epoch", "partner_node", "partner_device"),
    )
