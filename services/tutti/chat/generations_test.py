"""The rows of answers in progress, in a real database."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import MetaData, func, select

from tutti.backbone import SeededRandomness
from tutti.backbone.clock import ManualClock
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.store.unit import Units
from tutti.chat.generations import KEPT, Generation, Generations
from tutti.chat.journal import Begun, Said
from tutti.chat.requests import read

REQUEST = read({"model": "toy", "messages": [{"role": "user", "content": "hello\0"}], "seed": -1})


class Rows:
    def __init__(self) -> None:
        metadata, self.clock = MetaData(), ManualClock()
        self.rows = Generations(metadata)
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.units = Units(self.database, "chat", metadata, clock=self.clock, randomness=SeededRandomness(1))
        self.database.create(metadata)

    def begin(self, answer: str, user: str = "users/a") -> None:
        begun = Begun(answer, user, "tenants/a", "deployments/a", "checkpoints/a/0/1", REQUEST, 7)
        self.units.run(lambda unit: self.rows.begin(unit, [begun]))

    def add(self, *said: Said) -> None:
        self.units.run(lambda unit: self.rows.add(unit, said))

    def count(self) -> list[int]:
        """The number of rows of each table."""
        counts = [select(func.count()).select_from(table) for table in self.rows.tables]
        return self.units.run(lambda unit: [int(unit.tx.execute(each).scalar_one()) for each in counts])

    def find(self, answer: str) -> Generation | None:
        return self.units.run(lambda unit: self.rows.find(unit, answer))


@pytest.fixture
def rows() -> Iterator[Rows]:
    made = Rows()
    yield made
    made.database.close()


def test_the_request_and_the_tokens_of_each_answer_are_read_as_they_were_written(rows: Rows) -> None:
    for answer in ("answers/a", "answers/b"):
        rows.begin(answer)
    rows.add(Said("answers/a", 0, 5), Said("answers/b", 0, 2**32 - 1), Said("answers/a", 1, 6))
    rows.add(Said("answers/a", 2, 7))
    assert rows.find("answers/a") == Generation(REQUEST, [5, 6, 7])
    assert rows.find("answers/b") == Generation(REQUEST, [2**32 - 1])
    assert rows.find("answers/c") is None


def test_entries_that_are_written_again_change_nothing(rows: Rows) -> None:
    for _ in range(2):
        rows.begin("answers/a")
        rows.add(Said("answers/a", 0, 5), Said("answers/a", 1, 6))
    assert rows.find("answers/a") == Generation(REQUEST, [5, 6])


def test_old_answers_are_deleted_and_others_are_kept(rows: Rows) -> None:
    rows.begin("answers/old")
    rows.add(Said("answers/old", 0, 5))
    rows.clock.advance(timedelta(days=1).total_seconds())
    rows.begin("answers/new")
    rows.add(Said("answers/new", 0, 5))
    rows.units.run(lambda unit: rows.rows.prune(unit, unit.now - KEPT + timedelta(days=29, hours=12)))
    assert rows.find("answers/old") is None
    assert rows.find("answers/new") == Generation(REQUEST, [5])


def test_no_row_of_an_erased_user_is_left_also_where_an_answer_runs(rows: Rows) -> None:
    for answer, user in (("answers/a", "users/a"), ("answers/running", "users/a"), ("answers/b", "users/b")):
        rows.begin(answer, user)
        rows.add(Said(answer, 0, 5))
    rows.units.run(lambda unit: rows.rows.erase_all(unit, "users/a"))
    rows.add(Said("answers/running", 1, 6))
    assert rows.count() == [1, 1]
    assert rows.find("answers/b") == Generation(REQUEST, [5])
