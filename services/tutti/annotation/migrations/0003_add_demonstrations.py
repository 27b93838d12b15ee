"""Add the answers that annotators write, and their reviews."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "demonstrations",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("annotator", NAME, nullable=False),
        sa.Column("pair", NAME, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("reviewer", NAME, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("demonstrations_campaign", "demonstrations", ["campaign", "id"])
