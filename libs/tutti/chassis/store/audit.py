"""The audit trail of one service: who changed what, who was refused, and what failed.

Promises: a change is recorded in the transaction of the change itself; a refusal or a failure in one of its own. Those
that repeat within a minute are counted in one row, and callers whom nobody authenticated get few rows a minute, so that
an attacker cannot fill the disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from tutti.chassis.errors import code_of
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.statements import UNREADABLE, upsert
from tutti.chassis.store.tables import from_micros, micros

if TYPE_CHECKING:
    from sqlalchemy import Select

    from tutti.chassis.store.unit import Unit

CHANGED, REFUSED, FAILED = "changed", "refused", "failed"
FAILURES = frozenset({"DATA_LOSS", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE"})
"""The gRPC codes of a call that failed though the caller did nothing wrong."""
MINUTE = 60_000_000
STRANGERS = 20  # rows a minute for callers whom nobody authenticated; further ones are counted as OTHERS
OTHERS = "other calls"
DAMAGE = "damage"
_TYPES = dict.fromkeys(("seq", "at", "revision", "times"), int)
LONGEST = 200  # characters of a value that a stranger sent


@dataclass(frozen=True)
class Record:
    """One row. `method`: how the user was authenticated; `times`: how often it happened within the minute of `at`."""

    at: datetime
    user: str
    tenant: str
    method: str
    action: str
    resource: str
    revision: int
    outcome: str
    reason: str
    address: str
    times: int


def changed(
    unit: "Unit", principal: Principal, action: str, resource: str, revision: int = 0, *, address: str = ""
) -> None:
    """Record that `action` gave a resource this revision, on behalf of `principal`.

    Revision 0: what was changed belongs to the resource and is no part of it, such as a session of a user. `address` is
    that of the call unless it is given.
    """
    row = _row(unit, action, CHANGED, "") | {
        "user": principal.user,
        "tenant": principal.tenant,
        "method": principal.method.value,
        "resource": resource,
        "revision": revision,
        "address": (address or unit.cause.address)[:LONGEST],
    }
    unit.tx.execute(insert(unit.tables.audit), row)


def refused(
    unit: "Unit",
    action: str,
    reason: str,
    *,
    user: str = "",
    tenant: str = "",
    method: str = "",
    address: str = "",
    times: int = 1,
) -> None:
    """Record or count a call that was refused or failed; `user` is empty if nobody was authenticated."""
    row = _row(unit, action[:LONGEST], FAILED if code_of(reason) in FAILURES else REFUSED, reason) | {
        "user": user,
        "tenant": tenant,
        "method": method,
        "address": address[:LONGEST],
        "times": times,
    }
    row["fold"] = _fold(row)
    if not user and _is_one_too_many(unit, row):
        row |= {"action": OTHERS, "address": ""}
        row["fold"] = _fold(row)
    table = unit.tables.audit
    counted = (
        upsert(table, unit.tx.skip_locked)
        .values(row)
        .on_conflict_do_update(index_elements=[table.c.fold], set_={"times": table.c.times + times})
    )
    unit.tx.execute(counted)


def newest(unit: "Unit", count: int) -> Sequence[Record]:
    """Return the newest `count` records, newest first, without those that are damaged."""
    return listed(unit, count)[0]


def listed(unit: "Unit", count: int) -> tuple[list[Record], list[str]]:
    """Return the newest `count` records, newest first, and what is damaged among them, in words."""
    table = unit.tables.audit
    rows = read(unit, select(table).order_by(table.c.seq.desc()).limit(count))
    damaged = [f"record {row['seq']} is damaged: {row[DAMAGE]}" for row in rows if row[DAMAGE]]
    return [_record(row) for row in rows if not row[DAMAGE]], damaged


def read(unit: "Unit", query: "Select[Any]") -> list[dict[str, Any]]:
    """Return the values of these records by column. A value that cannot be one of its column is replaced by words, and
    DAMAGE says why.
    """
    try:
        return [_checked(dict(row._mapping)) for row in unit.tx.execute(query).all()]
    except UNREADABLE:
        numbers = unit.tx.execute(query.with_only_columns(unit.tables.audit.c.seq)).scalars().all()
        return [_read_alone(unit, int(number)) for number in numbers]


def _read_alone(unit: "Unit", number: int) -> dict[str, Any]:
    table = unit.tables.audit
    try:
        return _checked(dict(unit.tx.execute(select(table).where(table.c.seq == number)).one()._mapping))
    except UNREADABLE as error:
        why = str(error).splitlines()[0]
        return dict.fromkeys((column.name for column in table.columns), "(unreadable)") | {"seq": number, DAMAGE: why}


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    bad = {
        name: value for name, value in row.items() if name != "fold" and not isinstance(value, _TYPES.get(name, str))
    }
    words = "; ".join(f"its {name} is {value!r}" for name, value in bad.items())[:LONGEST]
    return row | dict.fromkeys(bad, words) | {DAMAGE: words}


def prune(unit: "Unit", before: datetime) -> int:
    """Delete the records that are older than `before`; how many."""
    table = unit.tables.audit
    return int(unit.tx.execute(delete(table).where(table.c.at < micros(before))).rowcount)


def _fold(row: dict[str, Any]) -> str:
    """The key of the row in which refusals are counted that are alike."""
    return "\n".join([str(row["at"] // MINUTE), row["user"], row["action"], row["reason"], row["address"]])


def _is_one_too_many(unit: "Unit", row: dict[str, Any]) -> bool:
    """True if strangers have all their rows of this minute, and this one would be another."""
    table = unit.tables.audit
    minute = row["at"] // MINUTE * MINUTE
    found = unit.tx.execute(select(table.c.fold).where(table.c.at >= minute, table.c.user == "")).all()
    return len(found) >= STRANGERS and row["fold"] not in {each.fold for each in found}


def _row(unit: "Unit", action: str, outcome: str, reason: str) -> dict[str, Any]:
    return {
        "at": micros(unit.now),
        "user": "",
        "tenant": "",
        "method": "",
        "action": action,
        "resource": "",
        "revision": 0,
        "outcome": outcome,
        "reason": reason,
        "address": "",
        "times": 1,
        "fold": None,
    }


def _record(row: dict[str, Any]) -> Record:
    names = (field.name for field in fields(Record) if field.name != "at")
    return Record(at=from_micros(row["at"]), **{name: row[name] for name in names})
