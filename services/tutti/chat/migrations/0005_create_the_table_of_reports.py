"""Create the table of reports of wrong refusals."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "refusal_reports",
        sa.Column("answer", NAME, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("deployment", NAME, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("begin", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("answer", "number", "user"),
    )
    op.create_index(op.f("ix_refusal_reports_deployment"), "refusal_reports", ["deployment"], unique=False)
    op.create_index("refusal_reports_user", "refusal_reports", ["user", "reported_at"], unique=False)
