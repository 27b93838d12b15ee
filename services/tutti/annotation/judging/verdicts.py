"""Verdicts of an owner on pairs that annotators flagged, or on which they differ.

Promises: the judgements of a pair that is left out are kept, and count again once it is no longer left out; controls
that show one of its answers are left out with it.
"""

import json
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select, update

from tutti.annotation.judging.checks import check_reason
from tutti.annotation.judging.pairs import OUT, Kind, Pair, Verdict
from tutti.annotation.judging.rows import Rows
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.store.unit import Unit


@dataclass(frozen=True)
class Settled:
    """The decision about a pair."""

    verdict: Verdict
    reason: str


def read(verdict: Verdict | None, reason: str) -> Settled:
    """The decision that somebody sent; None is a verdict that is unknown. Raises InvalidField."""
    if verdict not in (Verdict.KEPT, Verdict.LEFT_OUT):
        raise InvalidField("verdict", seen="no verdict", expected=f"{Verdict.KEPT} or {Verdict.LEFT_OUT}")
    words = check_reason(reason)
    if verdict is Verdict.LEFT_OUT and not words:
        raise InvalidField("reason", seen="nothing", expected="why the pair is left out, in words")
    return Settled(verdict, words)


def settled(tables: Tables, unit: Unit, campaign: str) -> dict[str, Settled]:
    """The decisions, by the ids of pairs; controls that only follow a pair are not in it."""
    table = tables.pairs
    among = (table.c.campaign == campaign, table.c.verdict.in_([Verdict.KEPT, Verdict.LEFT_OUT]))
    rows = unit.tx.execute(select(table.c.id, table.c.verdict, table.c.verdict_reason).where(*among)).all()
    return {row.id: Settled(Verdict(row.verdict), json.loads(row.verdict_reason)) for row in rows}


def left_out(tables: Tables, unit: Unit, campaign: str) -> set[str]:
    """The ids of all pairs that do not count."""
    table = tables.pairs
    among = (table.c.campaign == campaign, table.c.verdict.in_(OUT))
    return {row.id for row in unit.tx.execute(select(table.c.id).where(*among)).all()}


def count(tables: Tables, unit: Unit, campaign: str) -> int:
    """Ordinary pairs that are left out."""
    table = tables.pairs
    among = (table.c.campaign == campaign, table.c.kind == str(Kind.ORDINARY), table.c.verdict.in_(OUT))
    return int(unit.tx.execute(select(func.count()).select_from(table).where(*among)).scalar_one())


def about(rows: Rows, unit: Unit, campaign: str, id: str) -> Pair:
    """The pair with this id, or the one that it repeats in the other order. Raises NotFound."""
    found = rows.pairs(unit, campaign, [id]).get(id)
    if found is None:
        raise NotFound(f"the pair {id[:100]} of {campaign}")
    return rows.numbered(unit, campaign, found.base) if found.kind is Kind.SWAPPED else found


def settle(tables: Tables, unit: Unit, campaign: str, pair: Pair, made: Settled) -> bool:
    """Record a verdict; True if it changes what counts."""
    table = tables.pairs
    here = (table.c.campaign == campaign, table.c.id == pair.id)
    before = unit.tx.execute(select(table.c.verdict).where(*here)).scalar_one()
    values = {"verdict": str(made.verdict), "verdict_reason": json.dumps(made.reason)}
    unit.tx.execute(update(table).where(*here).values(values))
    if (before in OUT) == (made.verdict in OUT):
        return False
    if pair.kind is Kind.ORDINARY:
        _follow(tables, unit, campaign, pair)
    return True


def _follow(tables: Tables, unit: Unit, campaign: str, pair: Pair) -> None:
    """Leave out the controls of a prompt that show answers of its pairs which are left out, and no others."""
    table = tables.pairs
    prompt = select(table.c.prompt).where(table.c.campaign == campaign, table.c.id == pair.id).scalar_subquery()
    rows = unit.tx.execute(select(table).where(table.c.campaign == campaign, table.c.prompt == prompt)).all()
    out = [row for row in rows if row.kind == Kind.ORDINARY and row.verdict == Verdict.LEFT_OUT]
    numbers, texts = {row.number for row in out}, {text for row in out for text in (row.first, row.second)}
    controls = [row for row in rows if row.kind != Kind.ORDINARY and row.verdict in (Verdict.NONE, Verdict.FOLLOWS)]
    for verdict in (Verdict.NONE, Verdict.FOLLOWS):
        ids = [
            row.id
            for row in controls
            if (row.base in numbers or (row.base < 0 and row.first in texts)) == (verdict is Verdict.FOLLOWS)
        ]
        among: ColumnElement[bool] = table.c.id.in_(ids)
        unit.tx.execute(update(table).where(table.c.campaign == campaign, among).values(verdict=str(verdict)))
