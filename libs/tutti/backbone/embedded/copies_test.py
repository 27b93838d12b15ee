"""Copies of several databases at one moment."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, func, insert, select

from tutti.backbone.database import Contention, Transaction
from tutti.backbone.embedded.copies import copy_together
from tutti.backbone.embedded.database import EmbeddedDatabase

METADATA = MetaData()
NUMBERS = Table("numbers", METADATA, Column("number", Integer, primary_key=True))
NAMES = ("cause", "effect")
ROUNDS = 20


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[dict[str, EmbeddedDatabase]]:
    with ExitStack() as stack:
        opened = {name: stack.enter_context(closing(EmbeddedDatabase(tmp_path / f"{name}.db"))) for name in NAMES}
        for database in opened.values():
            database.create(METADATA)
        yield opened


def add(database: EmbeddedDatabase, number: int) -> None:
    database.run(lambda tx: tx.execute(insert(NUMBERS).values(number=number)) and None)


def highest(database: EmbeddedDatabase) -> int:
    return int(database.run(lambda tx: tx.execute(select(func.max(NUMBERS.c.number))).scalar() or 0))


@contextmanager
def in_use(databases: dict[str, EmbeddedDatabase]) -> Iterator[None]:
    """Another thread adds each number to the first database, and then to the second."""
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for name in NAMES:
                add(databases[name], number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def seen(folder: Path) -> list[int]:
    found = []
    for name in NAMES:
        with closing(sqlite3.connect(folder / f"{name}.db")) as copy:
            found.append(copy.execute("SELECT coalesce(max(number), 0) FROM numbers").fetchone()[0])
    return found


def test_no_copy_has_an_effect_without_its_cause(databases: dict[str, EmbeddedDatabase], tmp_path: Path) -> None:
    with in_use(databases):
        for number in range(ROUNDS):
            (folder := tmp_path / str(number)).mkdir()
            copy_together(databases, folder)
            cause, effect = seen(folder)
            assert cause - effect in (0, 1)
    assert highest(databases["effect"]) > 0


def test_copies_one_after_another_have_effects_without_causes(
    databases: dict[str, EmbeddedDatabase], tmp_path: Path
) -> None:
    for name in NAMES:
        databases[name].copy(tmp_path / f"{name}.copy", lambda: None)
        for each in NAMES:
            add(databases[each], 1 if name == "cause" else 2)
    copies = [sqlite3.connect(tmp_path / f"{name}.copy") for name in NAMES]
    counts = [copy.execute("SELECT count(*) FROM numbers").fetchone()[0] for copy in copies]
    for copy in copies:
        copy.close()
    assert counts == [0, 1]


def test_a_database_that_does_not_stop_is_named_and_no_copy_is_made(
    databases: dict[str, EmbeddedDatabase], tmp_path: Path
) -> None:
    begun, end = threading.Event(), threading.Event()

    def long(tx: Transaction) -> None:
        begun.set()
        end.wait(60)

    thread = threading.Thread(target=lambda: databases["effect"].run(long))
    thread.start()
    begun.wait(60)
    (folder := tmp_path / "copies").mkdir()
    threading.Timer(0.3, end.set).start()
    with pytest.raises(Contention, match=r"no copy was made: effect had a transaction open for more than 0.05 s"):
        copy_together(databases, folder, seconds=0.05)
    thread.join()
    assert list(folder.iterdir()) == []
    add(databases["cause"], 1)
