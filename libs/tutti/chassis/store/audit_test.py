"""What the audit trail keeps of refusals and failures, and how few rows strangers get."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, text

from tutti.backbone import ManualClock, SystemRandomness
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.store import audit
from tutti.chassis.store.tables import tables_of
from tutti.chassis.store.unit import Units

Refuse = Callable[..., list[audit.Record]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def units(tmp_path: Path, clock: ManualClock) -> Iterator[Units]:
    metadata = MetaData()
    tables_of(metadata)
    with closing(EmbeddedDatabase(tmp_path / "scheduler.db", clock=clock)) as database:
        database.create(metadata)
        yield Units(database, "scheduler", metadata, clock=clock, randomness=SystemRandomness())


@pytest.fixture
def refuse(units: Units) -> Refuse:
    """Record a refusal; the trail, newest first."""

    def refuse(action: str, reason: str, **more: Any) -> list[audit.Record]:
        units.run(lambda unit: audit.refused(unit, action, reason, **more))
        return units.run(lambda unit: list(audit.newest(unit, 1000)))

    return refuse


def test_a_failure_of_the_platform_is_no_refusal(refuse: Refuse) -> None:
    assert refuse("CancelJob", "NOT_FOUND", user="users/a")[0].outcome == audit.REFUSED
    assert refuse("CancelJob", "JOB_ENDED", user="users/a")[0].outcome == audit.REFUSED
    for reason in ("INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED"):
        assert refuse("CancelJob", reason, user="users/a")[0].outcome == audit.FAILED


def test_refusals_that_are_alike_are_counted_within_their_minute(refuse: Refuse, clock: ManualClock) -> None:
    refuse("CancelJob", "NOT_FOUND", user="users/a", address="192.0.2.7", times=3)
    assert [each.times for each in refuse("CancelJob", "NOT_FOUND", user="users/a", address="192.0.2.7")] == [4]
    for another in ({"user": "users/b", "address": "192.0.2.7"}, {"user": "users/a", "address": "192.0.2.8"}):
        assert refuse("CancelJob", "NOT_FOUND", **another)[0].times == 1
    clock.advance(60)
    found = refuse("CancelJob", "NOT_FOUND", user="users/a", address="192.0.2.7")
    assert [each.times for each in found] == [1, 1, 1, 4]


def test_strangers_get_few_rows_a_minute_and_each_of_their_calls_is_counted(refuse: Refuse, clock: ManualClock) -> None:
    for number in range(3 * audit.STRANGERS):
        found = refuse("CancelJob", "UNAUTHENTICATED", address=f"192.0.2.{number}")
    assert len(found) == audit.STRANGERS + 1
    others = [(each.action, each.address, each.times) for each in found if each.action != "CancelJob"]
    assert others == [(audit.OTHERS, "", 2 * audit.STRANGERS)]
    (first,) = [each for each in refuse("CancelJob", "UNAUTHENTICATED", address="192.0.2.0") if each.times == 2]
    assert first.address == "192.0.2.0"
    known = refuse("CancelJob", "NOT_FOUND", user="users/a", address="192.0.2.99")[0]
    assert (known.user, known.address) == ("users/a", "192.0.2.99")
    clock.advance(60)
    assert refuse("CancelJob", "UNAUTHENTICATED", address="192.0.2.77")[0].address == "192.0.2.77"


@pytest.mark.parametrize(
    "damage",
    ["user = CAST(x'c3ff' AS TEXT)", "at = 'never'", "resource = x'00ff'"],
    ids=["a text that is no text", "a time that is no time", "a text that is bytes"],
)
def test_a_damaged_record_is_left_out_and_named(refuse: Refuse, units: Units, damage: str) -> None:
    for action in ("CancelJob", "CancelRun", "CancelCrawl"):
        refuse(action, "NOT_FOUND", user="users/a")
    units.run(lambda unit: (unit.tx.execute(text(f"UPDATE audit SET {damage} WHERE seq = 2")), None)[1])  # noqa: S608
    found, damaged = units.run(lambda unit: audit.listed(unit, 10))
    assert [each.action for each in found] == ["CancelCrawl", "CancelJob"]
    assert [each.partition(" is damaged")[0] for each in damaged] == ["record 2"]
