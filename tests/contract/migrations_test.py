"""Histories of tables on both databases: the tables they make, crashes, newer versions, several processes at once."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, inspect, text
from sqlalchemy.engine import make_url
from tests.scale import scale
from tools import migration
from tools.pages import services

from tutti.backbone import migrations
from tutti.backbone.connect import open_database
from tutti.backbone.database import DatabaseError
from tutti.backbone.migrations import History, NewerSchema

REVISION = """import os, signal
import sqlalchemy as sa


def upgrade(op):
    op.create_table("t{number}", sa.Column("id", sa.Integer(), primary_key=True), if_not_exists=True)
    {then}
"""
OPENED = """import sys
from pathlib import Path
from sqlalchemy import Column, Integer, MetaData, Table
from tutti.backbone.connect import open_database
from tutti.backbone.migrations import History

url, name, history = sys.argv[1:]
database = open_database(url, name)
metadata = MetaData()
Table("t1", metadata, Column("id", Integer, primary_key=True))
database.create(metadata, [History(Path(history), "the tables")])
database.close()
print([each for each in sys.modules if each.startswith("alembic")])
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
AT_EACH = """import os, signal, sys
from pathlib import Path
from sqlalchemy import MetaData, event
from sqlalchemy.engine import Engine
from tutti.backbone.connect import open_database
from tutti.backbone.migrations import History

url, name, first, history, every = sys.argv[1:]


def upgraded(to, history, *, killed_at=0):
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    statements = iter(range(1, 10**6))

    @event.listens_for(Engine, "before_cursor_execute")
    def count(*_):
        if next(statements) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    open_database(url, to).create(MetaData(), [History(Path(history), "the tables")])
    os._exit(0)


at, ended = 1, -1
while ended:
    own = f"{name}_{at}"
    assert upgraded(own, first) == 0
    ended = upgraded(own, history, killed_at=at)
    assert ended in (0, signal.SIGKILL), ended
    print(own, flush=True)
    at += int(every) if ended else 0
"""
"""Upgrades a database for each statement at which the upgrade is killed, and prints their names."""


@pytest.fixture(params=["embedded", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database for one service."""
    return f"sqlite://{tmp_path}" if request.param == "embedded" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    add(folder, 1)
    return folder


def add(folder: Path, number: int, then: str = "pass") -> None:
    (folder / f"{number:04}.py").write_text(REVISION.format(number=number, then=then))


def create(url: str, name: str, history: Path | None, metadata: MetaData | None = None) -> None:
    with closing(open_database(url, name)) as database:
        database.create(metadata or MetaData(), [] if history is None else [of(history)])


def of(folder: Path) -> History:
    return History(folder, "the tables")


def seen(url: str, name: str) -> tuple[set[str], list[str]]:
    """The tables of a database and its revisions."""
    database = open_database(url, name)
    try:

        def read(tx: Any) -> tuple[set[str], list[str]]:
            tables = set(inspect(tx.execute(text("SELECT 1")).connection).get_table_names()) - {"alembic_version"}
            return tables, list(tx.execute(text("SELECT version_num FROM alembic_version")).scalars())

        return database.run(read)
    finally:
        database.close()


@pytest.mark.parametrize("adapter", ["embedded", "postgres"])
def test_the_histories_of_the_chassis_and_of_every_service_make_their_tables(
    request: pytest.FixtureRequest, adapter: str, unique: str
) -> None:
    assert all(each.migrations == migration.history(each.name) for each in services())
    tables = dict(migration.tables())
    assert next(iter(tables)) == migration.CHASSIS
    for service, metadata in tables.items():
        target = make_url("sqlite://" if adapter == "embedded" else request.getfixturevalue("postgres_url"))
        engine = create_engine(target if adapter == "embedded" else target.set(drivername="postgresql+psycopg"))
        with engine.connect() as connection:
            if adapter == "postgres":
                connection.execute(text(f"CREATE SCHEMA {unique}_{service}"))
                connection.execute(text(f"SET search_path TO {unique}_{service}"))
            migrations.upgrade(connection, of(migration.history(service)))
            found = migration.differences(connection, metadata).upgrade_ops
            assert found is not None
            assert found.as_diffs() == [], service
            connection.rollback()
        engine.dispose()


def test_no_two_revisions_of_a_history_have_the_same_number() -> None:
    for owner, _ in migration.tables():
        history = of(migration.history(owner))
        assert len(history.revisions()) == len(list(history.folder.glob("[0-9]*.py"))), owner


def test_only_the_history_of_the_chassis_makes_its_tables() -> None:
    """A service that made one, too, would fail on a new database, or hide a change of the chassis."""
    (_, chassis), *services = migration.tables()
    for service, _ in services:
        with create_engine("sqlite://").begin() as connection:
            migrations.upgrade(connection, of(migration.history(service)))
            made = set(inspect(connection).get_table_names())
        assert made.isdisjoint(chassis.tables), service


def test_a_number_that_a_history_left_out_is_still_known(url: str, unique: str, history: Path) -> None:
    add(history, 2)
    create(url, unique, history)
    add(history, 3)
    (history / "0002.py").unlink()
    assert of(history).lacking("0002") == ["0003"]
    create(url, unique, history)
    assert seen(url, unique) == ({"t1", "t2", "t3"}, ["0003"])


def test_two_histories_of_one_database_are_brought_up_in_their_order(url: str, unique: str, history: Path) -> None:
    other = history.with_name("other")
    other.mkdir()
    add(history, 2, then='op.execute("CREATE TABLE once (id integer)")')
    add(other, 1, then='op.execute("DROP TABLE once")')
    both = first, then = History(history, "the first", "first_version"), History(other, "the others")
    with closing(open_database(url, unique)) as database:
        database.create(MetaData(), both)
        assert database.run(lambda tx: migrations.held(tx, both)) == migrations.Held(
            frozenset({"t1", "t2"}), {first: "0002", then: "0001"}
        )
        add(history, 3)
        database.create(MetaData(), both)
        assert database.run(lambda tx: migrations.held(tx, both)).revisions == {first: "0003", then: "0001"}


@pytest.mark.parametrize("new", [True, False], ids=["new", "current"])
def test_tables_that_are_new_or_current_need_no_alembic(url: str, history: Path, unique: str, *, new: bool) -> None:
    if not new:
        create(url, unique, history)
    words = [sys.executable, "-c", OPENED, url, unique, str(history)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=True)
    assert done.stdout.strip() == "[]"
    assert seen(url, unique) == ({"t1"}, ["0001"])
    add(history, 2)
    create(url, unique, history)
    assert seen(url, unique) == ({"t1", "t2"}, ["0002"])


def test_a_table_without_a_revision_is_seen() -> None:
    tables = dict(migration.tables())
    for owner, table in (("sampling", "prompts"), (migration.CHASSIS, "scrubs")):
        tables[owner].remove(tables[owner].tables[table])
        assert migration.missing(owner, tables[owner]) is not None


def test_a_process_killed_within_a_revision_changes_nothing(url: str, unique: str, history: Path) -> None:
    create(url, unique, history)
    add(history, 2)
    add(history, 3, then=KILL)
    program = (
        "import sys; from pathlib import Path; from sqlalchemy import MetaData\n"
        "from tutti.backbone.connect import open_database\n"
        "from tutti.backbone.migrations import History\n"
        "history = History(Path(sys.argv[3]), 'the tables')\n"
        "open_database(sys.argv[1], sys.argv[2]).create(MetaData(), [history])\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, url, unique, history], timeout=400, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert seen(url, unique) == ({"t1"}, ["0001"])
    add(history, 3)
    create(url, unique, history)
    assert seen(url, unique) == ({"t1", "t2", "t3"}, ["0003"])


def test_an_upgrade_killed_at_any_statement_goes_on_to_the_same_tables(url: str, unique: str, tmp_path: Path) -> None:
    history, first = migration.history("annotation"), tmp_path / "first"
    first.mkdir()
    oldest, *_ = sorted(history.glob("0*.py"))
    (first / oldest.name).write_bytes(oldest.read_bytes())
    every = scale(test=10, soak=1)
    words = [sys.executable, "-c", AT_EACH, url, unique, str(first), str(history), str(every)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    *killed, whole = done.stdout.split()
    expected, before = seen(url, whole), seen(url, killed[0])
    assert before[1] == ["0001"]
    assert len(killed) * every > 10
    for name in killed:
        assert seen(url, name) in (before, expected)
        create(url, name, history)
        assert seen(url, name) == expected


def test_a_revision_that_fails_changes_nothing(url: str, unique: str, history: Path) -> None:
    create(url, unique, history)
    add(history, 2, then='op.execute("no statement")')
    with pytest.raises(Exception, match="syntax error"):
        create(url, unique, history)
    assert seen(url, unique) == ({"t1"}, ["0001"])


def test_tables_from_before_the_first_revision_are_adopted(url: str, unique: str, history: Path) -> None:
    before = MetaData()
    Table("t1", before, Column("id", Integer, primary_key=True))
    create(url, unique, None, before)
    add(history, 2)
    create(url, unique, history)
    assert seen(url, unique) == ({"t1", "t2"}, ["0002"])


def test_a_database_of_a_newer_version_is_refused(url: str, unique: str, history: Path) -> None:
    add(history, 2)
    create(url, unique, history)
    (history / "0002.py").unlink()
    with pytest.raises(NewerSchema, match=r"revision 0002, .* install the newer Tutti"):
        create(url, unique, history)
    assert issubclass(NewerSchema, DatabaseError)
    assert seen(url, unique)[1] == ["0002"]


def test_the_revisions_that_a_database_lacks_are_known_without_a_change(url: str, history: Path, unique: str) -> None:
    create(url, unique, history)
    add(history, 2)
    add(history, 3)
    with closing(open_database(url, unique)) as database:
        held = database.run(lambda tx: migrations.held(tx, [of(history)]))
    assert held == migrations.Held(frozenset({"t1"}), {of(history): "0001"})
    assert of(history).lacking("0001") == ["0002", "0003"]
    assert of(history).lacking("") == ["0001", "0002", "0003"]
    assert seen(url, unique) == ({"t1"}, ["0001"])
    with pytest.raises(NewerSchema, match=r"revision 0004, .* up to 0003: install the newer Tutti"):
        of(history).lacking("0004")


def test_two_processes_that_upgrade_at_once_run_each_revision_once(
    request: pytest.FixtureRequest, unique: str, history: Path
) -> None:
    url = request.getfixturevalue("postgres_url")
    add(history, 2, then='op.execute("CREATE TABLE once (id integer)")')
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: create(url, unique, history), range(4)))
    assert seen(url, unique) == ({"t1", "t2", "once"}, ["0002"])
