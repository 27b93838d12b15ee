"""The committer's rows: the open epoch of each job and its placement, reported shards, decisions, divergences.

Rows that decide carry a digest of themselves; a flipped byte is found when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

from tutti.chassis.errors import CorruptRow
from tutti.chassis.store.bodies import seal
from tutti.chassis.store.tables import NAME, declare


class Tables:
    """One set a MetaData; times are microseconds UTC."""

    def __init__(self, metadata: MetaData) -> None:
        self.epochs = declare(
            "epochs",
            metadata,
            Column("job", NAME, primary_key=True),
            Column("epoch", BigInteger, nullable=False),
            Column("line", BigInteger, nullable=False),
            Column("nodes", BigInteger, nullable=False),
            Column("steps", BigInteger, nullable=False),
            Column("base", BigInteger, nullable=False),
            Column("parent", NAME, nullable=False),
            Column("ranks", BigInteger, nullable=False),
            Column("shape_digest", NAME, nullable=False),
            Column("training", Text, nullable=False),
            Column("training_digest", NAME, nullable=False),
            Column("dataset_digest", NAME, nullable=False),
            Column("request_digest", NAME, nullable=False),
            Column("opened_at", BigInteger, nullable=False),
            Column("response", LargeBinary, nullable=False),
            Column("digest", String, nullable=False),
        )
        self.placements = declare(
            "placements",
            metadata,
            Column("job", NAME, primary_key=True),
            Column("epoch", BigInteger, nullable=False),
            Column("nodes", Text, nullable=False),
            Column("digest", String, nullable=False),
        )
        self.holders = declare(
            "holders",
            metadata,
            Column("job", NAME, primary_key=True),
            Column("epoch", BigInteger, primary_key=True),
            Column("nodes", Text, nullable=False),
            Column("digest", String, nullable=False),
        )
        self.shards = declare(
            "shards",
            metadata,
            Column("name", NAME, primary_key=True),
            Column("job", NAME, nullable=False),
            Column("line", BigInteger, nullable=False),
            Column("step", BigInteger, nullable=False),
            Column("epoch", BigInteger, nullable=False),
            Column("rank", BigInteger, nullable=False),
            Column("node", NAME, nullable=False),
            Column("report_key", NAME, nullable=False),
            Column("report_digest", NAME, nullable=False),
            Column("state", NAME, nullable=False),
            Column("reported_at", BigInteger, nullable=False),
            Column("claim", BigInteger, nullable=False),
            Column("claimed_until", BigInteger, nullable=False),
            Column("verifier", NAME, nullable=False),
            Column("process", NAME, nullable=False),
            Column("error", Text, nullable=False),
            Index("shards_step", "job", "epoch", "line", "step"),
            Index("shards_state", "state", "step"),
        )
        self.decisions = declare(
            "decisions",
            metadata,
            Column("name", NAME, primary_key=True),
            Column("job", NAME, nullable=False),
            Column("line", BigInteger, nullable=False),
            Column("step", BigInteger, nullable=False),
            Column("epoch", BigInteger, nullable=False),
            Column("state_digest", NAME, nullable=False),
            Column("manifest_key", NAME, nullable=False),
            Column("manifest", LargeBinary, nullable=False),
            Column("digest", String, nullable=False),
            Column("published", Integer, nullable=False),
            Column("pruned_at", BigInteger),
            Column("swept", Integer, nullable=False),
            Index("decisions_job", "job", "line", "step"),
        )
        self.divergences = declare(
            "divergences",
            metadata,
            Column("name", NAME, primary_key=True),
            Column("epoch", BigInteger, primary_key=True),
            Column("state_digest", NAME, nullable=False),
        )
        self.folders = declare(
            "folders",
            metadata,
            Column("name", NAME, primary_key=True),
            Column("path", Text, nullable=False),
        )
        self.remains = declare(
            "remains",
            metadata,
            Column("job", NAME, primary_key=True),
            Column("since", BigInteger, nullable=False),
        )
        self.uses = declare(
            "uses",
            metadata,
            Column("used_by", NAME, primary_key=True),
            Column("checkpoint", NAME, primary_key=True),
        )


_MUTABLE = frozenset({"digest", "published", "pruned_at", "swept"})


def sealed(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the digest of what it decides."""
    return {**values, "digest": _digest(table, values)}


def checked(table: Table, row: Any) -> Any:
    """The row itself. Raises CorruptRow."""
    values = row._mapping
    if _digest(table, values) != values["digest"]:
        key = next(iter(table.primary_key.columns)).name
        raise CorruptRow(
            f"the row {values[key]!r} of the table {table.name} does not have the digest that it was written with; "
            "restore the committer's database from a backup",
            metadata={"table": table.name, "name": str(values[key])},
        )
    return row


def _digest(table: Table, values: Mapping[str, Any]) -> str:
    parts: list[bytes | str] = []
    for column in table.columns:
        if column.name not in _MUTABLE:
            value = values[column.name]
            parts += [column.name, bytes(value) if isinstance(value, bytes | memoryview) else str(value)]
    return seal(*parts)
