"""Remarks of annotators beside their scores, for the owner of a campaign, and each annotator's own judgements.

Promises: read-only; an annotator's own data say nothing of controls.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import and_, case, func, or_, select

from tutti.annotation.judging.judgements import JudgementKind
from tutti.annotation.judging.records import Annotator
from tutti.annotation.tables import Tables
from tutti.chassis.store.unit import Unit


@dataclass(frozen=True)
class Remark:
    """A pair that was skipped or flagged, or commented on: `reason` is a word of the page, `comment` may be empty."""

    annotator: str
    pair: str
    said: str
    reason: str
    comment: str


def remarks(tables: Tables, unit: Unit, campaign: str, most: int, *, undecided: bool = False) -> list[Remark]:
    """Everything that annotators said beside scores, the newest first.

    `undecided`: only of pairs without a verdict, flags first and then skips.
    """
    table, comments, pairs = tables.judgements, tables.comments, tables.pairs
    statement = (
        select(table, comments.c.words)
        .outerjoin(comments, comments.c.judgement == table.c.id)
        .where(table.c.campaign == campaign, or_(table.c.reason != "", comments.c.words != ""))
    )
    if undecided:
        statement = statement.join(pairs, and_(pairs.c.campaign == table.c.campaign, pairs.c.id == table.c.pair))
        said = case((table.c.said == JudgementKind.FLAGGED, 0), (table.c.said == JudgementKind.SKIPPED, 1), else_=2)
        statement = statement.where(pairs.c.verdict == "").order_by(said)
    statement = statement.order_by(table.c.received_at.desc(), table.c.id).limit(most)
    return [
        Remark(row.annotator, row.pair, row.said, row.reason, row.words or "")
        for row in unit.tx.execute(statement).all()
    ]


def moment(at: int) -> str:
    """A time in microseconds as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat()


def count(tables: Tables, unit: Unit, campaign: str) -> int:
    """Return the number of judgements that arrived in a campaign, of every kind: it grows with each remark."""
    table = tables.judgements
    found = select(func.count()).select_from(table).where(table.c.campaign == campaign)
    return int(unit.tx.execute(found).scalar_one())


def own(tables: Tables, unit: Unit, annotator: Annotator) -> list[dict[str, object]]:
    """All that is stored of an annotator's judgements, superseded ones too, by arrival, but nothing of controls."""
    table, comments, written = tables.judgements, tables.comments, tables.written
    statement = (
        select(table, comments.c.words, written.c.words.label("written"))
        .outerjoin(comments, comments.c.judgement == table.c.id)
        .outerjoin(written, written.c.id == table.c.id)
        .where(table.c.campaign == annotator.campaign, table.c.annotator == annotator.key)
        .order_by(table.c.received_at, table.c.id)
    )
    return [
        {
            "id": row.id,
            "pair": row.pair,
            "said": row.said,
            "scores": json.loads(row.scores),
            "reason": row.reason,
            "comment": row.words or "",
            "demonstration": json.loads(row.written) if row.written else "",
            "guideline": row.guideline,
            "shown_ms": row.shown_ms,
            "received_at": moment(row.received_at),
            "supersedes": row.supersedes,
        }
        for row in unit.tx.execute(statement).all()
    ]
