"""The versions of a campaign's guideline, and the retraction of one.

Promises: judgements that were made under a retracted version are kept and count no more, whoever made them; their pairs
can be judged again by the same annotators. What was skipped or flagged stays so.
"""

import json
from collections import Counter
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Table, delete, func, select, update

from tutti.annotation.judging.judgements import JudgementKind
from tutti.annotation.judging.pairs import Kind
from tutti.annotation.judging.records import JUDGED
from tutti.annotation.judging.rows import BATCH
from tutti.annotation.tables import Tables
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import Campaign, Guideline

LONGEST_TITLE = 100


def versions(tables: Tables, unit: Unit, campaign: Campaign) -> list[Guideline]:
    """Every version, the oldest first."""
    table, said = tables.guidelines, tables.judgements
    among = _judged(said, campaign.name)
    counts = unit.tx.execute(select(said.c.guideline, func.count()).where(*among).group_by(said.c.guideline)).all()
    made_under = {version: count for version, count in counts}
    rows = unit.tx.execute(select(table).where(table.c.campaign == campaign.name).order_by(table.c.place)).all()
    return [
        Guideline(
            campaign=campaign.name,
            version=row.version,
            current=row.version == campaign.guideline,
            judgements=made_under.get(row.version, 0),
            retracted=json.loads(row.retracted) if row.retracted else "",
            title=json.loads(row.words).strip().splitlines()[0][:LONGEST_TITLE],
        )
        for row in rows
    ]


def _judged(said: Table, campaign: str) -> Sequence[ColumnElement[bool]]:
    """The conditions of judgements that count, without those of the qualification."""
    return (
        said.c.campaign == campaign,
        said.c.current.is_(True),
        said.c.said == str(JudgementKind.JUDGED),
        said.c.kind != str(Kind.QUALIFYING),
    )


def retracted(tables: Tables, unit: Unit, campaign: str) -> set[str]:
    """The versions whose judgements do not count."""
    table = tables.guidelines
    among = (table.c.campaign == campaign, table.c.retracted != "")
    return {row.version for row in unit.tx.execute(select(table.c.version).where(*among)).all()}


def retract(tables: Tables, unit: Unit, campaign: str, version: str, reason: str) -> None:
    """Let no judgement count that was made under this version; the campaign is locked."""
    table, said, own, pairs = tables.guidelines, tables.judgements, tables.assignments, tables.pairs
    here = (table.c.campaign == campaign, table.c.version == version)
    unit.tx.execute(update(table).where(*here).values(retracted=json.dumps(reason)))
    made = (*_judged(said, campaign), said.c.guideline == version)
    mine = (own.c.campaign == campaign, own.c.judgement.in_(select(said.c.id).where(*made)))
    judged = unit.tx.execute(select(own.c.pair).where(*mine, own.c.state == JUDGED)).scalars().all()
    unit.tx.execute(delete(own).where(*mine))
    by_count: dict[int, list[str]] = {}
    for pair, count in Counter(judged).items():
        by_count.setdefault(count, []).append(pair)
    for count, ids in by_count.items():
        for begin in range(0, len(ids), BATCH):
            among = (pairs.c.campaign == campaign, pairs.c.id.in_(ids[begin : begin + BATCH]))
            fewer = {"given": pairs.c.given - count, "judged": pairs.c.judged - count}
            unit.tx.execute(update(pairs).where(*among).values(fewer))
    unit.tx.execute(update(said).where(*made).values(current=False))
