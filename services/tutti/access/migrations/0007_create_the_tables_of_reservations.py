"""Create the tables of reservations and usage."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "allowances",
        sa.Column("subject", NAME, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )
    op.create_index(op.f("ix_allowances_at"), "allowances", ["at"], unique=False)
    op.create_table(
        "answer_usage",
        sa.Column("subject", NAME, nullable=False),
        sa.Column("day", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("prompt", sa.BigInteger(), nullable=False),
        sa.Column("released", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "day"),
    )
    op.create_index(op.f("ix_answer_usage_user"), "answer_usage", ["user"], unique=False)
    op.create_table(
        "reservations",
        sa.Column("id", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("credential", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("prompt", sa.BigInteger(), nullable=False),
        sa.Column("released", sa.BigInteger(), nullable=False),
        sa.Column("computed", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_reservations_ended_at"), "reservations", ["ended_at"], unique=False)
    op.create_index("reservations_expiring", "reservations", ["ended_at", "expires_at"], unique=False)
    op.create_index("reservations_running", "reservations", ["subject", "ended_at"], unique=False)
