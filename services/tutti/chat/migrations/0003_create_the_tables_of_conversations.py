"""Create the tables of conversations."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "conversations",
        sa.Column("id", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("conversations_user", "conversations", ["tenant", "user", "changed_at"], unique=False)
    op.create_table(
        "conversation_messages",
        sa.Column("id", NAME, nullable=False),
        sa.Column("conversation", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("parent", NAME, nullable=False),
        sa.Column("role", NAME, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("finished", NAME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("answer", NAME, nullable=False),
        sa.Column("model", NAME, nullable=False),
        sa.Column("unsent", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_conversation_messages_answer"), "conversation_messages", ["answer"], unique=False)
    op.create_index("conversation_messages_order", "conversation_messages", ["conversation", "revision"], unique=False)
