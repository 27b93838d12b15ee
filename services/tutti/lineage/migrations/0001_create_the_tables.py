"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations


def upgrade(op: Operations) -> None:
    op.create_table(
        "lineage_edges",
        sa.Column("parent", sa.String(length=400), nullable=False),
        sa.Column("child", sa.String(length=400), nullable=False),
        sa.Column("relation", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("parent", "child"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_lineage_edges_child"), "lineage_edges", ["child"], unique=False, if_not_exists=True)
    op.create_table(
        "lineage_manifests",
        sa.Column("key", sa.String(length=400), nullable=False),
        sa.Column("resource", sa.String(length=400), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.PrimaryKeyConstraint("key", "resource"),
        if_not_exists=True,
    )
    op.create_index(
        op.f("ix_lineage_manifests_state"), "lineage_manifests", ["state"], unique=False, if_not_exists=True
    )
    op.create_table(
        "lineage_vertices",
        sa.Column("name", sa.String(length=400), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
