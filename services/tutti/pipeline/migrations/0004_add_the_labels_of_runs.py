"""Add the labels by which runs are filtered."""

import sqlalchemy as sa
from alembic.operations import Operations
from google.protobuf.message import DecodeError

from tutti.contracts.pipeline.v1 import Run

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
RUNS = sa.table("runs", sa.column("name"), sa.column("body"), sa.column("title"))


def upgrade(op: Operations) -> None:
    for column in (sa.Column("title", NAME), sa.Column("tags", NAME), sa.Column("archived", sa.BigInteger())):
        op.add_column("runs", column)
    op.create_index(op.f("ix_runs_archived"), "runs", ["archived"], unique=False)
    op.create_index(op.f("ix_runs_title"), "runs", ["title"], unique=False)
    op.execute("UPDATE runs SET tags = '', archived = 0")
    here = op.get_bind()
    for name, body in here.execute(sa.select(RUNS.c.name, RUNS.c.body)).all():
        here.execute(sa.update(RUNS).where(RUNS.c.name == name).values(title=_title(bytes(body))))


def _title(body: bytes) -> str | None:
    """The title of a run; None for a damaged row, which stays as it is."""
    try:
        return Run.FromString(body).spec.title
    except DecodeError:
        return None
