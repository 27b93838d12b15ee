"""Add what owners decide about pairs and guidelines, and the table of messages to owners."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.add_column("guidelines", sa.Column("retracted", sa.Text(), server_default="", nullable=False))
    op.add_column("pairs", sa.Column("verdict", NAME, server_default="", nullable=False))
    op.add_column("pairs", sa.Column("verdict_reason", sa.Text(), server_default="", nullable=False))
    op.drop_index("pairs_counts", "pairs")
    op.create_index("pairs_counts", "pairs", ["campaign", "kind", "verdict", "needed", "judged"])
    op.create_table(
        "messages",
        sa.Column("id", NAME, nullable=False),
        sa.Column("campaign", NAME, nullable=False),
        sa.Column("annotator", NAME, nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("answerer", NAME, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("messages_campaign", "messages", ["campaign", "annotator", "sent_at"])
