"""The prompts of each sample: a table of its own.

Promises: what people ask a model stays here and in the sample's manifest; no event or reason holds it.
"""

import json
from collections.abc import Sequence

from sqlalchemy import Column, MetaData, String, Text, insert, select

from tutti.chassis.store.tables import declare
from tutti.chassis.store.unit import Unit


class Prompts:
    def __init__(self, metadata: MetaData) -> None:
        self.table = declare(
            "prompts",
            metadata,
            Column("sample", String(400), primary_key=True),
            Column("texts", Text, nullable=False),
        )

    def keep(self, unit: Unit, sample: str, texts: Sequence[str]) -> None:
        """Record the prompts of a sample; the first ones stay."""
        if unit.tx.execute(select(self.table.c.sample).where(self.table.c.sample == sample)).first() is None:
            unit.tx.execute(insert(self.table).values(sample=sample, texts=json.dumps(list(texts))))

    def of(self, unit: Unit, sample: str) -> list[str]:
        """The prompts of a sample that was created."""
        row = unit.tx.execute(select(self.table.c.texts).where(self.table.c.sample == sample)).one()
        return [str(text) for text in json.loads(row.texts)]
