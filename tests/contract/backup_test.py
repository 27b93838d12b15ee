"""Backups of Postgres: rows of an embedded platform on a server and back, all schemas at one moment."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import MetaData

from tutti.backbone.database import DatabaseError
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.postgres.roles import ensure_roles
from tutti.chassis.store import stack
from tutti.upkeep.backup.databases import copy_server, fill, held, installed

SERVICES = ("annotation", "scheduler")
VALUES = {"BOOLEAN": 1, "BLOB": b"\x00\xff\n", "FLOAT": 0.1}
TEXT = "a\tb\\N\n\"ü'"
EVENT = (
    "INSERT INTO {}.outbox (id, type, topic, kind, subject, revision, made_at, headers, payload) "
    "VALUES (%s, 't', 't', 'state', 's', 1, 1, '{{}}', '') RETURNING seq"
)


@pytest.fixture
def url(postgres_url: str, unique: str) -> Iterator[str]:
    """An empty database of its own, with a role for each service."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {unique}".encode())
    made = f"{postgres_url.rpartition('/')[0]}/{unique}"
    ensure_roles(made, dict.fromkeys(SERVICES, "secret"))
    yield made
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {unique} WITH (FORCE)".encode())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """SQLite files of services, with two rows in every table."""
    (folder := tmp_path / "files").mkdir()
    found = {}
    for service in SERVICES:
        found[service] = folder / f"{service}.db"
        with closing(EmbeddedDatabase(found[service])) as database:
            database.create(MetaData(), installed()[service])
            database.create(stack.METADATA)
        with closing(sqlite3.connect(found[service])) as rows:
            for table in tables(rows):
                columns = rows.execute("SELECT name, type FROM pragma_table_info(?)", [table]).fetchall()
                for number in (3, 7):
                    values = [value(kind, number) for _, kind in columns]
                    places = ", ".join("?" * len(values))
                    rows.execute(f'INSERT INTO "{table}" VALUES ({places})', values)  # noqa: S608
            rows.commit()
    return found


def value(kind: str, number: int) -> Any:
    if "INT" in kind:
        return number
    return VALUES.get(kind, f"{number}{TEXT}")


def tables(rows: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return [name for (name,) in rows.execute(query) if not name.endswith("_version")]


def content(file: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(file)) as rows:
        return {table: sorted(rows.execute(f'SELECT * FROM "{table}"').fetchall()) for table in tables(rows)}  # noqa: S608


def as_role(url: str, role: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, user=role, password="secret")  # noqa: S106


def test_rows_go_to_a_server_and_back_unchanged(url: str, files: dict[str, Path], tmp_path: Path) -> None:
    assert held(url, tmp_path) == []
    fill(url, tmp_path, files)
    assert held(url, tmp_path) == sorted(SERVICES)
    (back := tmp_path / "back").mkdir()
    copy_server(url)(back)
    for service, file in files.items():
        assert content(back / f"{service}.db") == content(file)
        assert len(content(file)) > 9
    fill(url, tmp_path, files)  # a restore that is run again
    assert sorted(path.name for path in back.iterdir()) == [f"{service}.db" for service in sorted(SERVICES)]


def test_tables_belong_to_the_role_of_their_service_and_serial_numbers_go_on(
    url: str, files: dict[str, Path], tmp_path: Path
) -> None:
    fill(url, tmp_path, files)
    for service in SERVICES:
        with as_role(url, service) as connection:
            found = connection.execute(EVENT.format(service).encode(), ["new"]).fetchone()
            assert found == (8,)
            connection.execute(f"CREATE INDEX ON {service}.outbox (made_at)".encode())
    with as_role(url, "scheduler") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM annotation.outbox")


def test_no_schema_has_an_effect_whose_cause_another_lacks(url: str, files: dict[str, Path], tmp_path: Path) -> None:
    fill(url, tmp_path, files)
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                for service in SERVICES:
                    connection.execute(EVENT.format(service).encode(), [f"new{number}"])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for attempt in range(5):
            (folder := tmp_path / str(attempt)).mkdir()
            copy_server(url)(folder)
            cause, effect = (len(content(folder / f"{service}.db")["outbox"]) for service in SERVICES)
            assert cause - effect in (0, 1)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE scheduler.outbox ADD COLUMN later text", "the table outbox of scheduler has columns .*later"),
        ("UPDATE scheduler.alembic_version SET version_num = '9999'", "scheduler have revision 9999.*expects 000"),
        ("UPDATE scheduler.chassis_version SET version_num = '9999'", "scheduler have revision 9999.*expects 000"),
        ("DROP TABLE annotation.inbox", "the table inbox of annotation has columns none, this version expects"),
    ],
    ids=["column", "revision", "chassis revision", "table"],
)
def test_tables_of_another_version_are_refused(
    url: str, files: dict[str, Path], tmp_path: Path, change: str, words: str
) -> None:
    fill(url, tmp_path, files)
    with psycopg.connect(url) as connection:
        connection.execute(change.encode())
    (folder := tmp_path / "copy").mkdir()
    with pytest.raises(DatabaseError, match=words):
        copy_server(url)(folder)


def test_a_role_that_may_not_read_is_told_so(url: str, files: dict[str, Path], tmp_path: Path) -> None:
    fill(url, tmp_path, files)
    address = url.rpartition("@")[2]
    (folder := tmp_path / "copy").mkdir()
    with pytest.raises(DatabaseError, match=r"permission denied.*expected a role that is a member of every service's"):
        copy_server(f"postgresql://scheduler:secret@{address}")(folder)
