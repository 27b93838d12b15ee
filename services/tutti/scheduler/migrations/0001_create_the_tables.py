"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "agents",
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("node"),
        if_not_exists=True,
    )
    op.create_table(
        "attempts",
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("resume_step", sa.BigInteger(), nullable=False),
        sa.Column("placed_at", sa.BigInteger(), nullable=False),
        sa.Column("spawned_at", sa.BigInteger(), nullable=False),
        sa.Column("stopped_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=False),
        sa.Column("persisted_at", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("loss", sa.Float(precision=53), nullable=False),
        sa.Column("bits_per_byte", sa.Float(precision=53), nullable=True),
        sa.PrimaryKeyConstraint("job"),
        if_not_exists=True,
    )
    op.create_table(
        "job_history",
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "number"),
        if_not_exists=True,
    )
    op.create_table(
        "jobs",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "nodes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_nodes_state"), "nodes", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "placements",
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("topology_version", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("first_rank", sa.Integer(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("job", "topology_version", "node"),
        if_not_exists=True,
    )
    op.create_table(
        "ranks",
        sa.Column("job", sa.String(length=200), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("event", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", "rank"),
        if_not_exists=True,
    )
    op.create_index("ranks_on_node", "ranks", ["job", "node"], unique=False, if_not_exists=True)
    op.create_table(
        "topologies",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("job", NAME, nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_topologies_job"), "topologies", ["job"], unique=False, if_not_exists=True)
    op.create_table(
        "transitions",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("job", NAME, nullable=True),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_transitions_job"), "transitions", ["job"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_transitions_state"), "transitions", ["state"], unique=False, if_not_exists=True)
