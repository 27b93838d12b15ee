"""Statements on the tables of judgements, prepared once, and their rows as pairs."""

import json
from typing import Any

from sqlalchemy import (
    BindParameter,
    Insert,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from tutti.annotation.judging.pairs import OUT, Kind, Pair
from tutti.annotation.judging.records import LAPSED, LEASED
from tutti.chassis.store.statements import prepared, upsert
from tutti.corpus.conversations.conversations import InvalidConversation, messages_of
from tutti.records.fields import Fields


@prepared
def given_statement(table: Table, postgres: bool) -> Any:
    made = upsert(table, postgres)
    again = {name: made.excluded[name] for name in ("place", "state", "expires_at")}
    return made.on_conflict_do_update(index_elements=["campaign", "annotator", "pair"], set_=again)


@prepared
def annotator_statement(table: Table, by: str) -> Select[Any]:
    mine = (table.c.campaign == bindparam("of"), table.c[by] == bindparam("wanted"))
    return select(table).where(*mine).with_for_update()


@prepared
def free_statement(table: Table, own: Table, kinds: tuple[str, ...], *, after: bool) -> Select[Any]:
    """Pairs of these kinds that an annotator was not given, or that were taken back unanswered, from a place on or
    before it; ordinary ones are lacking.
    """
    mine = and_(own.c.campaign == table.c.campaign, own.c.pair == table.c.id, own.c.annotator == bindparam("by"))
    taken_back = and_(own.c.state == LAPSED, own.c.judgement == "")
    conditions = [table.c.campaign == bindparam("of"), table.c.kind.in_(kinds), or_(own.c.pair.is_(None), taken_back)]
    conditions.append(table.c.verdict.not_in(OUT))
    if Kind.ORDINARY in kinds:
        conditions.append(table.c.given < table.c.needed)
    start: BindParameter[int] = bindparam("start")
    conditions.append(table.c.number >= start if after else table.c.number < start)
    found = select(table).outerjoin(own, mine).where(*conditions)
    return found.order_by(table.c.number).limit(bindparam("most"))


@prepared
def in_state_statement(table: Table, own: Table) -> Select[Any]:
    mine = (own.c.campaign == bindparam("of"), own.c.annotator == bindparam("by"), own.c.state == bindparam("in"))
    return _with_pairs(table, own).where(*mine).order_by(own.c.place)


@prepared
def recent_statement(table: Table, own: Table) -> Select[Any]:
    """Places and pairs that an annotator was given from a place on, answered or not."""
    mine = (own.c.campaign == bindparam("of"), own.c.annotator == bindparam("by"), own.c.place >= bindparam("since"))
    return _with_pairs(table, own).where(*mine).order_by(own.c.place)


@prepared
def assigned_statement(table: Table, own: Table) -> Select[Any]:
    mine = (own.c.campaign == bindparam("of"), own.c.annotator == bindparam("by"), own.c.pair == bindparam("wanted"))
    return _with_pairs(table, own).where(*mine)


def _with_pairs(table: Table, own: Table) -> Select[Any]:
    same = and_(table.c.campaign == own.c.campaign, table.c.id == own.c.pair)
    return select(own.c.state, own.c.place, own.c.judgement, table).join(table, same)


@prepared
def inserted_statement(table: Table) -> Insert:
    return insert(table)


@prepared
def settled_statement(own: Table) -> Update:
    mine = (own.c.campaign == bindparam("of"), own.c.annotator == bindparam("by"), own.c.pair == bindparam("wanted"))
    return update(own).where(*mine)


@prepared
def settled_so_far_statement(annotators: Table, own: Table) -> Select[Any]:
    given = select(func.coalesce(func.sum(annotators.c.places), 0)).where(annotators.c.campaign == bindparam("of"))
    open_ = select(func.count()).where(own.c.campaign == bindparam("of"), own.c.state == LEASED)
    return select(given.scalar_subquery() - open_.scalar_subquery())


@prepared
def judgement_statement(table: Table) -> Select[Any]:
    return select(table).where(table.c.id == bindparam("wanted"))


@prepared
def answered_statement(table: Table) -> Select[Any]:
    mine = (table.c.campaign == bindparam("of"), table.c.annotator == bindparam("by"), table.c.current.is_(True))
    return select(func.count()).select_from(table).where(*mine, table.c.kind != str(Kind.QUALIFYING))


@prepared
def counted_statement(table: Table) -> Update:
    given, judged = (table.c[name] + bindparam(f"more_{name}") for name in ("given", "judged"))
    mine = (table.c.campaign == bindparam("of"), table.c.id == bindparam("wanted"))
    return update(table).where(*mine).values(given=given, judged=judged)


def row_of_pair(campaign: str, pair: Pair, needed: int) -> dict[str, object]:
    return {
        "campaign": campaign,
        "id": pair.id,
        "number": pair.number,
        "kind": str(pair.kind),
        "prompt": json.dumps([each.to_json() for each in pair.prompt]),
        "first": json.dumps(pair.answers[0]),
        "second": json.dumps(pair.answers[1]),
        "first_source": pair.sources[0],
        "second_source": pair.sources[1],
        "base": pair.base,
        "better": pair.better,
        "explanation": json.dumps(pair.explanation),
        "first_stop": pair.stops[0],
        "second_stop": pair.stops[1],
        "needed": needed or len(pair.labels),
        "given": len(pair.labels),
        "judged": len(pair.labels),
    }


def pair_of(row: Any) -> Pair:
    prompt = Fields({"prompt": json.loads(row.prompt)}, path="pair", error=InvalidConversation)
    return Pair(
        row.id,
        row.number,
        Kind(row.kind),
        messages_of(prompt, "prompt"),
        (json.loads(row.first), json.loads(row.second)),
        (row.first_source, row.second_source),
        row.base,
        row.better,
        json.loads(row.explanation),
        stops=(row.first_stop, row.second_stop),
    )
