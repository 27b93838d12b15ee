"""Reports of wrong refusals, in a real database."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import MetaData

from tutti.backbone import SeededRandomness
from tutti.backbone.clock import ManualClock
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import Refused
from tutti.chassis.identity.principal import Method, Principal
from tutti.chassis.store.unit import Units
from tutti.chat.reports import DAY, MOST_A_DAY, Report, Reports
from tutti.contracts.chat.v1 import Answer, Decision


class Rows:
    def __init__(self) -> None:
        metadata, self.clock = MetaData(), ManualClock()
        self.rows = Reports(metadata)
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.units = Units(self.database, "chat", metadata, clock=self.clock, randomness=SeededRandomness(1))
        self.database.create(metadata)

    def report(self, who: Principal, ident: str, deployment: str = "deployments/a") -> bool:
        decisions = [Decision(rule="r", version="1", place=-1, begin=each, end=each + 2) for each in range(2)]
        answer = Answer(name=f"answers/{ident}", deployment=deployment, decisions=decisions)
        return self.units.run(lambda unit: self.rows.add(unit, who, answer, f"words of {ident}"))

    def newest(self, who: Principal, deployment: str = "", limit: int = 1000) -> list[Report]:
        return [*self.units.run(lambda unit: self.rows.newest(unit, who, deployment=deployment, limit=limit))]


@pytest.fixture
def rows() -> Iterator[Rows]:
    made = Rows()
    yield made
    made.database.close()


def somebody(user: str, tenant: str = "tenants/a") -> Principal:
    return Principal(f"users/{user}", frozenset(), tenant, Method.SESSION)


def test_a_user_reports_so_many_refusals_a_day(rows: Rows) -> None:
    ada = somebody("ada")
    assert all(rows.report(ada, f"{each}") for each in range(MOST_A_DAY))
    with pytest.raises(Refused, match="within a day"):
        rows.report(ada, "more")
    assert not rows.report(ada, "0"), "it was reported before"
    assert rows.report(somebody("grace"), "more")
    rows.clock.advance((DAY + timedelta(seconds=1)).total_seconds())
    assert rows.report(ada, "more")


def test_operators_read_the_reports_of_their_tenant_the_newest_first(rows: Rows) -> None:
    for number, who in enumerate([somebody("ada"), somebody("grace", "tenants/b"), somebody("ada")]):
        rows.report(who, f"{number}", f"deployments/{number % 2}")
        rows.clock.advance(1.0)
    operator = somebody("operator")
    assert [(each.answer, each.number) for each in rows.newest(operator)] == [
        *(("answers/2", 0), ("answers/2", 1)),
        *(("answers/0", 0), ("answers/0", 1)),
    ]
    assert [each.answer for each in rows.newest(operator, limit=1)] == ["answers/2"]
    assert rows.newest(operator, "deployments/1") == []
    assert {each.words for each in rows.newest(somebody("x", "tenants/b"))} == {"words of 1"}
    rows.units.run(lambda unit: rows.rows.erase(unit, "users/ada"))
    assert rows.newest(operator) == []
    assert rows.units.run(lambda unit: rows.rows.count(unit, "deployments/1")) == 2
