"""Databases of every former stage have the same tables after an upgrade as new ones, on SQLite and Postgres.

Until the chassis had a history of its own, the history of each service made the chassis tables too.
"""

import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, MetaData, create_engine, inspect, text
from sqlalchemy.engine import make_url
from tools import migration

from tutti.backbone import ManualClock, SeededRandomness, migrations
from tutti.backbone.connect import open_database
from tutti.backbone.migrations import History
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store import stack
from tutti.chassis.store.unit import Units
from tutti.contracts.common.v1 import ListRequest
from tutti.pipeline.runs.tables import Tables
from tutti.upkeep.backup.databases import fill, installed

RELEASES = Path(__file__).parents[1] / "e2e" / "releases"
FORMER = Path(__file__).with_name("former_chassis.sql")
MADE = {
    "access": (4, 5),
    "annotation": (7, 9),
    "committer": (2, 4),
    "dedup": (2, 3),
    "evaluation": (3, 4),
    "ingest": (3, 4),
    "lineage": (3, 4),
    "pipeline": (2, 3),
    "sampling": (3, 4),
    "scheduler": (5, 6),
    "tokenization": (2, 3),
}
"""The revisions of former histories that made the tables of scrubs and of audit seals."""
IN_SQLITE = (
    ("seq BIGSERIAL NOT NULL", "seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"),
    (", PRIMARY KEY (seq)", ""),
    (' COLLATE "C"', ""),
    ("BYTEA", "BLOB"),
)
OPERATOR = Principal.of_role(Role.OPERATOR)
Schema = dict[str, Any]
Opened = Callable[[str], Any]


def tables_of_services() -> dict[str, MetaData]:
    """All tables in the database of each service."""
    (_, chassis), *services = migration.tables()
    for _, metadata in services:
        for table in chassis.tables.values():
            table.to_metadata(metadata)
    return dict(services)


def former(stages: int, sqlite: bool) -> list[str]:
    """The statements that made the chassis tables in the first stages."""
    words = "".join(FORMER.read_text().split("-- stage ")[1 : stages + 1])
    for postgres, here in IN_SQLITE if sqlite else ():
        words = words.replace(postgres, here)
    lines = (line for line in words.splitlines() if line.endswith((";", "(", ",", ")")))
    return [each for each in "\n".join(lines).split(";") if each.strip()]


def schema(connection: Connection) -> Schema:
    """Everything of the tables that a statement could make differently."""
    seen = inspect(connection)
    compiled = connection.dialect.type_compiler_instance
    found: Schema = {}
    for (_, table), columns in seen.get_multi_columns().items():
        found[table] = {
            column["name"]: (compiled.process(column["type"]), column["nullable"], column["default"])
            for column in columns
        }
    for (_, table), key in seen.get_multi_pk_constraint().items():
        found[table]["primary key"] = key["constrained_columns"]
    for (_, table), uniques in seen.get_multi_unique_constraints().items():
        found[table]["unique"] = sorted(each["column_names"] for each in uniques)
    for (_, table), indexes in seen.get_multi_indexes().items():
        for each in indexes:
            where = sorted(str(value) for value in each.get("dialect_options", {}).values())
            found[table][f"index {each['name']}"] = (each["column_names"], bool(each["unique"]), where)
    if connection.dialect.name == "sqlite":
        for table, words in connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'table'")):
            if table in found:
                found[table]["autoincrement"] = "AUTOINCREMENT" in words
    found.pop(stack.TABLE, None)
    return found


@pytest.fixture(params=["embedded", "postgres"])
def opened(request: pytest.FixtureRequest, unique: str) -> Opened:
    """Opens an empty database by a name, which is gone afterwards."""
    if request.param == "embedded":
        url = make_url("sqlite://")
    else:
        url = make_url(request.getfixturevalue("postgres_url")).set(drivername="postgresql+psycopg")

    @contextmanager
    def opened(name: str) -> Iterator[Connection]:
        engine = create_engine(url)
        with engine.connect() as connection:
            if request.param == "postgres":
                connection.execute(text(f"CREATE SCHEMA {unique}_{name}"))
                connection.execute(text(f"SET search_path TO {unique}_{name}"))
            yield connection
            connection.rollback()
        engine.dispose()

    return opened


def until(history: History, revision: int, folder: Path) -> History:
    """A history whose newest revision is this one, or the one before it that is left."""
    folder.mkdir(parents=True)
    for number, path in history.revisions().items():
        if int(number) <= revision:
            shutil.copy(path, folder)
    return History(folder, history.tables)


def test_every_former_stage_of_the_chassis_tables_becomes_the_one_of_today(opened: Opened, tmp_path: Path) -> None:
    assert set(MADE) <= set(installed())
    for service, metadata in tables_of_services().items():
        if service not in MADE:
            continue
        chassis, own = installed()[service]
        with opened(service) as connection:
            migrations.bring_up(connection, metadata, (chassis, own))
            new = schema(connection)
        for revision in (0, 1, *MADE[service]):
            with opened(f"{service}_{revision}") as connection:
                stages = 1 + (revision > 0) + sum(revision >= each for each in MADE[service])
                for statement in former(stages, connection.dialect.name == "sqlite"):
                    connection.execute(text(statement))
                connection.execute(text("INSERT INTO leases VALUES ('relay', 'it', 1, 2, 3, 4)"))
                if revision:
                    migrations.upgrade(connection, until(own, revision, tmp_path / service / str(revision)))
                    connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision:04}'"))  # noqa: S608
                migrations.bring_up(connection, metadata, (chassis, own))
                assert schema(connection) == new, (service, revision)
                assert connection.execute(text("SELECT holder FROM leases")).scalars().all() == ["it"]


@pytest.mark.parametrize("adapter", ["embedded", "postgres"])
@pytest.mark.parametrize("release", sorted(path.name for path in RELEASES.glob("*.tar.xz")))
def test_databases_of_a_release_become_as_new_ones(
    request: pytest.FixtureRequest, tmp_path: Path, unique: str, release: str, adapter: str
) -> None:
    with tarfile.open(RELEASES / release) as archive:
        members = [each for each in archive.getmembers() if each.name.endswith(".db") and "db/" in each.name]
        archive.extractall(tmp_path / "kept", members, filter="data")
    files = {path.stem: path for path in sorted((tmp_path / "kept").rglob("db/*.db"))}
    assert "scheduler" in files
    old, new = f"sqlite://{files['scheduler'].parent}", f"sqlite://{tmp_path}"
    if adapter == "postgres":
        server = str(request.getfixturevalue("postgres_url"))
        with psycopg.connect(server, autocommit=True) as connection:
            for name in (unique, f"{unique}_new"):
                connection.execute(f"CREATE DATABASE {name}".encode())
                # Where another test made a role for a service, its schema is made by that role.
                connection.execute(f"GRANT CREATE ON DATABASE {name} TO PUBLIC".encode())
        old, new = (f"{server.rpartition('/')[0]}/{name}" for name in (unique, f"{unique}_new"))
        fill(old, tmp_path, files)
    tables = tables_of_services()
    for service in files:
        seen = []
        for url in (old, new):
            with closing(open_database(url, service)) as database:
                database.create(tables[service], installed()[service])
                seen.append(database.run(lambda tx: schema(tx.execute(text("SELECT 1")).connection)))
        assert seen[0] == seen[1], service


@pytest.mark.parametrize("release", sorted(path.name for path in RELEASES.glob("*.tar.xz")))
def test_runs_of_a_release_are_listed_and_found_by_their_titles(tmp_path: Path, release: str) -> None:
    with tarfile.open(RELEASES / release) as archive:
        kept = next(each for each in archive.getmembers() if each.name.endswith("db/pipeline.db"))
        archive.extract(kept, tmp_path, filter="data")
    metadata = MetaData()
    runs = Tables(metadata).runs
    with closing(open_database(f"sqlite://{(tmp_path / kept.name).parent}", "pipeline")) as database:
        database.create(tables_of_services()["pipeline"], installed()["pipeline"])
        units = Units(database, "pipeline", metadata, clock=ManualClock(), randomness=SeededRandomness("x"))
        listed = units.run(lambda unit: runs.readable(unit))
        assert listed.found
        assert listed.damaged == []
        for run in listed.found:
            wanted = ListRequest(filter=f"archived=false AND title={run.spec.title}")
            found = units.run(lambda unit, wanted=wanted: runs.page(unit, wanted, OPERATOR))  # type: ignore[misc]
            assert run.name in [each.name for each in found.found]
