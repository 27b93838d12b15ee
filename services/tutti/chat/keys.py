"""Idempotency keys: which answers a request with a key began, so that a retry of it finds them.

Promises: a key belongs to its user in its tenant; it is kept as long as the journal of its answers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, delete, select

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.tables import NAME, declare, micros
from tutti.chassis.store.unit import Unit

HEADER = "idempotency-key"
MOST_KEY = 200


@dataclass(frozen=True)
class Keyed:
    """The request with `digest` began `answers`, whose bodies have `head` in common; `seed` is that of the first."""

    tenant: str
    user: str
    key: str
    digest: str
    seed: int
    head: Mapping[str, Any]
    answers: Sequence[str]


def key_in(headers: Mapping[str, str]) -> str:
    """The key of a request, or nothing. Raises InvalidField."""
    key = headers.get(HEADER)
    if key is None:
        return ""
    if not 0 < len(key) <= MOST_KEY or not all("!" <= each <= "~" for each in key):
        raise InvalidField("Idempotency-Key", seen=key, expected=f"1 to {MOST_KEY} visible characters of ASCII")
    return key


class Keys:
    def __init__(self, metadata: MetaData) -> None:
        self.table: Table = declare(
            "answer_keys",
            metadata,
            Column("tenant", NAME, primary_key=True),
            Column("user", NAME, primary_key=True),
            Column("key", NAME, primary_key=True),
            Column("digest", NAME, nullable=False),
            Column("seed", BigInteger, nullable=False),
            Column("head", Text, nullable=False),
            Column("answers", Text, nullable=False),
            Column("begun_at", BigInteger, nullable=False, index=True),
        )

    def find(self, unit: Unit, who: Principal, key: str) -> Keyed | None:
        table = self.table
        same = (table.c.tenant == who.tenant, table.c.user == who.user, table.c.key == key)
        row = unit.tx.execute(select(table).where(*same)).first()
        if row is None:
            return None
        return Keyed(
            row.tenant, row.user, row.key, row.digest, int(row.seed), json.loads(row.head), json.loads(row.answers)
        )

    def put(self, unit: Unit, every: Sequence[Keyed]) -> None:
        """Write keys; one that is there already gets the new answers."""
        table = self.table
        for each in every:
            same = (table.c.tenant == each.tenant, table.c.user == each.user, table.c.key == each.key)
            unit.tx.execute(delete(table).where(*same)).close()
        rows = [
            {
                "tenant": each.tenant,
                "user": each.user,
                "key": each.key,
                "digest": each.digest,
                "seed": each.seed,
                "head": json.dumps(dict(each.head)),
                "answers": json.dumps(list(each.answers)),
                "begun_at": micros(unit.now),
            }
            for each in every
        ]
        unit.tx.insert(table, rows)

    def prune(self, unit: Unit, before: datetime) -> None:
        """Delete keys that were written before a time."""
        unit.tx.execute(delete(self.table).where(self.table.c.begun_at < micros(before))).close()
