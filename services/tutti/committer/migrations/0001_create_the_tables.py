"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "checkpoints",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("job", NAME, nullable=True),
        sa.Column("line", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_checkpoints_job"), "checkpoints", ["job"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_checkpoints_line"), "checkpoints", ["line"], unique=False, if_not_exists=True)
    op.create_index(op.f("ix_checkpoints_state"), "checkpoints", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "decisions",
        sa.Column("name", NAME, nullable=False),
        sa.Column("job", NAME, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state_digest", NAME, nullable=False),
        sa.Column("manifest_key", NAME, nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("published", sa.Integer(), nullable=False),
        sa.Column("pruned_at", sa.BigInteger(), nullable=True),
        sa.Column("swept", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_index("decisions_job", "decisions", ["job", "line", "step"], unique=False, if_not_exists=True)
    op.create_table(
        "divergences",
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state_digest", NAME, nullable=False),
        sa.PrimaryKeyConstraint("name", "epoch"),
        if_not_exists=True,
    )
    op.create_table(
        "epochs",
        sa.Column("job", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("base", sa.BigInteger(), nullable=False),
        sa.Column("parent", NAME, nullable=False),
        sa.Column("ranks", sa.BigInteger(), nullable=False),
        sa.Column("shape_digest", NAME, nullable=False),
        sa.Column("training", sa.Text(), nullable=False),
        sa.Column("training_digest", NAME, nullable=False),
        sa.Column("dataset_digest", NAME, nullable=False),
        sa.Column("request_digest", NAME, nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("job"),
        if_not_exists=True,
    )
    op.create_table(
        "lines",
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
    op.create_index(op.f("ix_lines_job"), "lines", ["job"], unique=False, if_not_exists=True)
    op.create_table(
        "remains",
        sa.Column("job", NAME, nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job"),
        if_not_exists=True,
    )
    op.create_table(
        "shards",
        sa.Column("name", NAME, nullable=False),
        sa.Column("job", NAME, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("node", NAME, nullable=False),
        sa.Column("report_key", NAME, nullable=False),
        sa.Column("report_digest", NAME, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("claimed_until", sa.BigInteger(), nullable=False),
        sa.Column("verifier", NAME, nullable=False),
        sa.Column("process", NAME, nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_index("shards_state", "shards", ["state", "step"], unique=False, if_not_exists=True)
    op.create_index("shards_step", "shards", ["job", "epoch", "line", "step"], unique=False, if_not_exists=True)
