"""Reports of wrong refusals: a user says that the filter should not have refused a text.

Promises: a decision is reported once by its user; a report has no text of the conversation, but the words that its user
wrote for operators; the reports of a user who is erased are deleted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, Index, MetaData, Row, Table, Text, delete, distinct, func, select

from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.tables import NAME, from_micros, micros
from tutti.chassis.store.tables import declare as declare_table
from tutti.chassis.store.unit import Unit
from tutti.contracts.chat.v1 import Answer, Decision

MOST_CHARACTERS = 500
MOST_A_DAY, DAY = 50, timedelta(days=1)
NOT_REFUSED, TOO_MANY = "NOT_REFUSED", "TOO_MANY_REPORTS"
declare(
    {
        NOT_REFUSED: "the filter refused nothing of the answer, so there is no refusal to report",
        TOO_MANY: f"the user reported {MOST_A_DAY} refusals within a day, the most that one can; report it later",
    }
)


@dataclass(frozen=True)
class Report:
    """`number` is that of the decision in the record of the answer."""

    answer: str
    number: int
    tenant: str
    user: str
    deployment: str
    decision: Decision
    words: str
    reported_at: datetime


class Reports:
    def __init__(self, metadata: MetaData) -> None:
        self.table: Table = declare_table(
            "refusal_reports",
            metadata,
            Column("answer", NAME, primary_key=True),
            Column("number", BigInteger, primary_key=True),
            Column("user", NAME, primary_key=True),
            Column("tenant", NAME, nullable=False),
            Column("deployment", NAME, nullable=False, index=True),
            Column("rule", Text, nullable=False),
            Column("version", Text, nullable=False),
            Column("place", BigInteger, nullable=False),
            Column("begin", BigInteger, nullable=False),
            Column("end", BigInteger, nullable=False),
            Column("words", Text, nullable=False),
            Column("reported_at", BigInteger, nullable=False),
            Index("refusal_reports_user", "user", "reported_at"),
        )

    def add(self, unit: Unit, who: Principal, answer: Answer, words: str) -> bool:
        """Report each decision of an answer; False if they were reported before, which changes nothing.

        Raises InvalidField for words that are too long, Refused.
        """
        if len(words) > MOST_CHARACTERS:
            expected = f"at most {MOST_CHARACTERS} characters"
            raise InvalidField("words", seen=f"{len(words)} characters", expected=expected)
        if not answer.decisions:
            raise Refused(NOT_REFUSED, f"the filter refused nothing of {answer.name}")
        table = self.table
        same = (table.c.answer == answer.name, table.c.user == who.user)
        if unit.tx.execute(select(table.c.number).where(*same)).first() is not None:
            return False
        recent = (table.c.user == who.user, table.c.reported_at > micros(unit.now - DAY))
        if unit.tx.execute(select(func.count(distinct(table.c.answer))).where(*recent)).scalar_one() >= MOST_A_DAY:
            raise Refused(TOO_MANY, f"you reported {MOST_A_DAY} refusals within a day: report this one later")
        common: Mapping[str, Any] = {
            "answer": answer.name,
            "user": who.user,
            "tenant": who.tenant,
            "deployment": answer.deployment,
            "words": words,
            "reported_at": micros(unit.now),
        }
        rows = [
            {
                **common,
                "number": number,
                "rule": each.rule,
                "version": each.version,
                "place": each.place,
                "begin": each.begin,
                "end": each.end,
            }
            for number, each in enumerate(answer.decisions)
        ]
        unit.tx.insert(table, rows)
        return True

    def newest(self, unit: Unit, who: Principal, *, deployment: str, limit: int) -> Sequence[Report]:
        """The newest reports that a principal may read, of one deployment or, where that is empty, of all."""
        table = self.table
        query = select(table)
        if not who.is_machine and not who.is_owner:
            query = query.where(table.c.tenant == who.tenant)
        if deployment:
            query = query.where(table.c.deployment == deployment)
        query = query.order_by(table.c.reported_at.desc(), table.c.answer, table.c.user, table.c.number)
        return [_report(row) for row in unit.tx.execute(query.limit(limit))]

    def count(self, unit: Unit, deployment: str) -> int:
        """The number of decisions of a deployment that were reported."""
        table = self.table
        found = select(func.count()).select_from(table).where(table.c.deployment == deployment)
        return int(unit.tx.execute(found).scalar_one())

    def erase(self, unit: Unit, user: str) -> None:
        """Delete all reports of a user."""
        unit.tx.execute(delete(self.table).where(self.table.c.user == user)).close()


def _report(row: Row[Any]) -> Report:
    decision = Decision(rule=row.rule, version=row.version, place=row.place, begin=row.begin, end=row.end)
    at = from_micros(row.reported_at)
    return Report(row.answer, row.number, row.tenant, row.user, row.deployment, decision, row.words, at)
