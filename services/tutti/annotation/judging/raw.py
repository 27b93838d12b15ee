"""Judgements as they came, as JSON lines: every axis, with the words beside them, and the pair."""

import json
from typing import Any

from sqlalchemy import and_, or_, select

from tutti.annotation.judging.judgements import canonical
from tutti.annotation.judging.records import RETRACTED
from tutti.annotation.judging.remarks import moment
from tutti.annotation.judging.statements import pair_of
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import ReadJudgementsResponse

ROWS = 200
PAGE_CHARACTERS = 500_000
"""The length of all lines of a page, unless one line has more: a message is limited in bytes."""


def page(tables: Tables, unit: Unit, campaign: str, token: str) -> ReadJudgementsResponse:
    """A page of the judgements of a campaign by arrival, without those of annotators who were retracted.

    Raises InvalidField for a token that no page has given.
    """
    said, people, comments, written = tables.judgements, tables.annotators, tables.comments, tables.written
    statement = (
        select(said, people.c.user, comments.c.words, written.c.words.label("written"))
        .join(people, and_(people.c.campaign == said.c.campaign, people.c.key == said.c.annotator))
        .outerjoin(comments, comments.c.judgement == said.c.id)
        .outerjoin(written, written.c.id == said.c.id)
        .where(said.c.campaign == campaign, people.c.state != RETRACTED)
        .order_by(said.c.received_at, said.c.id)
        .limit(ROWS)
    )
    if token:
        at, id = _place(token)
        later = and_(said.c.received_at == at, said.c.id > id)
        statement = statement.where(or_(said.c.received_at > at, later))
    rows = unit.tx.execute(statement).all()
    pairs = _pairs(tables, unit, campaign, {row.pair for row in rows})
    lines, size = list[str](), 0
    for count, row in enumerate(rows, 1):
        lines.append(json.dumps({**_said(row), **pairs[row.pair]}, ensure_ascii=False))
        size += len(lines[-1])
        if size >= PAGE_CHARACTERS or count == ROWS:
            return ReadJudgementsResponse(lines=lines, next_page_token=f"{row.received_at}/{row.id}")
    return ReadJudgementsResponse(lines=lines)


def _place(token: str) -> tuple[int, str]:
    at, _, id = token.partition("/")
    if not (at.isascii() and at.isdigit() and len(at) < 19):
        raise InvalidField("page_token", seen=token, expected="the next_page_token of an earlier answer")
    return int(at), id


def _pairs(tables: Tables, unit: Unit, campaign: str, ids: set[str]) -> dict[str, dict[str, Any]]:
    table = tables.pairs
    rows = unit.tx.execute(select(table).where(table.c.campaign == campaign, table.c.id.in_(sorted(ids)))).all()
    found = {}
    for row in rows:
        pair = pair_of(row)
        found[row.id] = {
            "prompt": [each.to_json() for each in pair.prompt],
            "answers": list(pair.answers),
            "sources": list(pair.sources),
            "verdict": row.verdict,
        }
    return found


def _said(row: Any) -> dict[str, Any]:
    """Scores are of the first and the second answer: -2 the first is much better … 2 the second is."""
    return {
        "id": row.id,
        "annotator": row.annotator,
        "user": row.user,
        "pair": row.pair,
        "pair_kind": row.kind,
        "kind": row.said,
        "scores": canonical(json.loads(row.scores), flipped=bool(row.flipped)),
        "first_was_left": not row.flipped,
        "reason": row.reason,
        "comment": row.words or "",
        "demonstration": json.loads(row.written) if row.written else "",
        "guideline": row.guideline,
        "shown_ms": row.shown_ms,
        "received_at": moment(row.received_at),
        "supersedes": row.supersedes,
        "current": bool(row.current),
        "simulated": bool(row.simulated),
    }
