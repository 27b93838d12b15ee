"""The inbox of a group: what it handled, and what it may forget."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import MetaData, insert

from tutti.backbone import Kind, ManualClock, SeededRandomness
from tutti.backbone.database import Conflict
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.events.event import Event
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit, Units

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Units]:
    metadata, clock = MetaData(), ManualClock()
    database = EmbeddedDatabase(tmp_path / "x.db", clock=clock, inline=True)
    units = Units(database, "demo", metadata, clock=clock, randomness=SeededRandomness("x"))
    database.create(metadata)
    yield units
    database.close()


def event(subject: str, revision: int = 1) -> Event:
    return Event(f"{subject}/{revision}", "demo", subject, revision, AT, "", None)


def test_what_one_group_handled_is_new_to_another(units: Units) -> None:
    mine, other = Inbox("mine"), Inbox("other")
    units.run(lambda unit: mine.fence(unit, Kind.FACT, [event("a"), event("b")]))
    units.run(lambda unit: mine.fence(unit, Kind.STATE, [event("a", 3), event("a", 2), event("b", 1)]))
    assert units.run(lambda unit: mine.seen(unit, ["a/1", "b/1", "c/1"])) == {"a/1", "b/1"}
    assert units.run(lambda unit: other.seen(unit, ["a/1", "b/1", "c/1"])) == set()
    assert units.run(lambda unit: mine.revisions(unit, ["a", "b", "c"])) == {"a": 3, "b": 1}
    assert units.run(lambda unit: other.revisions(unit, ["a", "b", "c"])) == {}


def test_a_state_that_is_handled_again_raises_the_revision_of_its_subject_alone(units: Units) -> None:
    mine, other = Inbox("mine"), Inbox("other")
    for subject in ("a", "b"):
        for group in (mine, other):
            units.run(partial(group.fence, kind=Kind.STATE, events=[event(subject)]))
    units.run(lambda unit: mine.fence(unit, Kind.STATE, [event("a", 2)], {"a", "z"}))
    with pytest.raises(Conflict):  # nobody has asked for its row, so it was not locked
        units.run(lambda unit: mine.fence(unit, Kind.STATE, [event("b", 5)], {"a"}))
    assert units.run(lambda unit: mine.revisions(unit, ["a", "b"])) == {"a": 2, "b": 1}
    assert units.run(lambda unit: other.revisions(unit, ["a", "b"])) == {"a": 1, "b": 1}


def test_a_fact_is_handled_once(units: Units) -> None:
    mine = Inbox("mine")
    units.run(lambda unit: mine.fence(unit, Kind.FACT, [event("a")]))
    units.run(lambda unit: mine.fence_id(unit, "rubbish"))
    assert units.run(lambda unit: mine.seen(unit, ["a/1", "rubbish"])) == {"a/1", "rubbish"}
    with pytest.raises(Conflict):
        units.run(lambda unit: mine.fence(unit, Kind.FACT, [event("a")]))
    with pytest.raises(Conflict):
        units.run(lambda unit: mine.fence_id(unit, "rubbish"))


def test_nothing_is_asked_about_no_events(units: Units) -> None:
    assert units.run(lambda unit: Inbox("mine").seen(unit, [])) == set()
    assert units.run(lambda unit: Inbox("mine").revisions(unit, [])) == {}


def test_facts_are_forgotten_when_they_are_old_but_not_those_of_dead_letters(units: Units) -> None:
    mine, other, ids = Inbox("mine"), Inbox("other"), ["old/1", "dead/1", "young/1"]

    def handled(unit: Unit) -> None:
        for group in ("mine", "other"):
            seen = {"old/1": AT, "dead/1": AT, "young/1": AT + timedelta(hours=1)}
            rows = [{"group_name": group, "id": id, "seen_at": micros(at)} for id, at in seen.items()]
            unit.tx.execute(insert(unit.tables.inbox), rows)
        letter = {name: "x" for name in ("type", "topic", "subject", "headers", "error")}
        row = {**letter, "group_name": "mine", "id": "dead/1", "payload": b"", "died_at": 0}
        unit.tx.execute(insert(unit.tables.dead_letters), row)

    units.run(handled)
    assert units.run(lambda unit: mine.prune(unit, AT)) == 0
    assert units.run(lambda unit: mine.prune(unit, AT + timedelta(hours=1))) == 1
    assert units.run(lambda unit: mine.seen(unit, ids)) == {"dead/1", "young/1"}
    assert units.run(lambda unit: other.seen(unit, ids)) == set(ids)
    assert units.run(lambda unit: other.prune(unit, AT + timedelta(hours=1))) == 2
