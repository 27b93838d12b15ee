"""Histories of tables on both databases: the tables they make, crashes, newer versions, several processes at once."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
from tutti.backbone.migrations import NewerSchema

REVISION = """import os, signal
import sqlalchemy as sa

revision = "{number:04}"
down_revision = {down}


def upgrade(op):
    op.create_table("t{number}", sa.Column("id", sa.Integer(), primary_key=True), if_not_exists=True)
    {then}
"""
OPENED = """import sys
from pathlib import Path
from sqlalchemy import Column, Integer, MetaData, Table
from tutti.backbone.connect import open_database

url, name, history = sys.argv[1:]
database = open_database(url, name)
metadata = MetaData()
Table("t1", metadata, Column("id", Integer, primary_key=True))
database.create(metadata, Path(history))
database.close()
print([each for each in sys.modules if each.startswith("alembic")])
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
AT_EACH = """import os, signal, sys
from pathlib import Path
from sqlalchemy import MetaData, event
from sqlalchemy.engine import Engine
from tutti.backbone.connect import open_database

url, name, first, history, every = sys.argv[1:]


def upgraded(to, history, *, killed_at=0):
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    statements = iter(range(1, 10**6))

    @event.listens_for(Engine, "before_cursor_execute")
    def count(*_):
        if next(statements) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    open_database(url, to).create(MetaData(), Path(history))
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
    down = repr(f"{number - 1:04}") if number > 1 else "None"
    (folder / f"{number:04}.py").write_text(REVISION.format(number=number, down=down, then=then))


def create(url: str, name: str, history: Path | None, metadata: MetaData | None = None) -> None:
    database = open_database(url, name)
    try:
        database.create(metadata or MetaData(), history)
    finally:
        database.close()


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
def test_the_history_of_every_service_makes_its_tables(
    request: pytest.FixtureRequest, adapter: str, unique: str
) -> None:
    assert all(each.migrations == migration.history(each.name) for each in services())
    tables = dict(migration.tables())
    for service, metadata in tables.items():
        target = make_url("sqlite://" if adapter == "embedded" else request.getfixturevalue("postgres_url"))
        engine = create_engine(target if adapter == "embedded" else target.set(drivername="postgresql+psycopg"))
        with engine.connect() as connection:
            if adapter == "postgres":
                connection.execute(text(f"CREATE SCHEMA {unique}_{service}"))
                connection.execute(text(f"SET search_path TO {unique}_{service}"))
            migrations.upgrade(connection, migration.history(service))
            found = migration.differences(connection, metadata).upgrade_ops
            assert found is not None
            assert found.as_diffs() == [], service
            connection.rollback()
        engine.dispose()


def test_the_newest_revision_of_every_service_is_known_without_alembic() -> None:
    for service, _ in migration.tables():
        history = migration.history(service)
        assert migrations.newest(history) == migrations.directory(history).get_current_head()


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
    metadata = dict(migration.tables())["sampling"]
    metadata.remove(metadata.tables["prompts"])
    assert migration.missing("sampling", metadata) is not None


def test_a_process_killed_within_a_revision_changes_nothing(url: str, unique: str, history: Path) -> None:
    create(url, unique, history)
    add(history, 2)
    add(history, 3, then=KILL)
    program = (
        "import sys; from pathlib import Path; from sqlalchemy import MetaData\n"
        "from tutti.backbone.connect import open_database\n"
        "open_database(sys.argv[1], sys.argv[2]).create(MetaData(), Path(sys.argv[3]))\n"
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
    database = open_database(url, unique)
    try:
        held = database.run(migrations.held)
    finally:
        database.close()
    assert (set(held.tables), held.revision) == ({"t1"}, "0001")
    assert migrations.lacking(held.revision, history) == ["0002", "0003"]
    assert migrations.lacking("", history) == ["0001", "0002", "0003"]
    assert seen(url, unique) == ({"t1"}, ["0001"])
    with pytest.raises(NewerSchema, match=r"revision 0004, .* up to 0003: install the newer Tutti"):
        migrations.lacking("0004", history)


def test_two_processes_that_upgrade_at_once_run_each_revision_once(
    request: pytest.FixtureRequest, unique: str, history: Path
) -> None:
    url = request.getfixturevalue("postgres_url")
    add(history, 2, then='op.execute("CREATE TABLE once (id integer)")')
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: create(url, unique, history), range(4)))
    assert seen(url, unique) == ({"t1", "t2", "once"}, ["0002"])
