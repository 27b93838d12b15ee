"""Create the table of published demonstrations; written answers, and their reviews, move to a table of another name."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.drop_index("demonstrations_campaign", "demonstrations")
    op.rename_table("demonstrations", "written_demonstrations")
    op.create_index("written_demonstrations_campaign", "written_demonstrations", ["campaign", "id"])
    op.create_table(
        "demonstrations",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
    )
    op.create_index(op.f("ix_demonstrations_state"), "demonstrations", ["state"], unique=False)
