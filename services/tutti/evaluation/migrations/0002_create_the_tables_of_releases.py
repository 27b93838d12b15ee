"""Create the tables of releases."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "releases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.Column("standing", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
    )
    op.create_index(op.f("ix_releases_standing"), "releases", ["standing"], unique=False)
    op.create_index(op.f("ix_releases_state"), "releases", ["state"], unique=False)
    op.create_table(
        "relied_on",
        sa.Column("release", NAME, nullable=False),
        sa.Column("resource", NAME, nullable=False),
        sa.PrimaryKeyConstraint("release", "resource"),
    )
    op.create_index(op.f("ix_relied_on_resource"), "relied_on", ["resource"], unique=False)
    op.create_table(
        "signing_keys",
        sa.Column("purpose", NAME, nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("purpose"),
    )
