"""What a connection that breaks or hangs means on Postgres: a second run, an error in time, or an unknown outcome."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select, text
from sqlalchemy.engine import make_url
from tests.e2e.flips import flip_table

from tutti.backbone import Database, Transaction
from tutti.backbone.connect import open_database
from tutti.backbone.database import DatabaseDamaged, DatabaseError, DatabaseUnavailable
from tutti.backbone.postgres.database import PostgresDatabase
from tutti.chassis.delivery.inbox import _seen
from tutti.chassis.store.tables import tables_of

metadata = MetaData()
rows = Table("rows", metadata, Column("id", Integer, primary_key=True))


@pytest.fixture
def db(postgres_url: str, unique: str) -> Iterator[Database]:
    with closing(open_database(postgres_url, unique)) as opened:
        opened.create(metadata)
        yield opened


@pytest.fixture
def killer(postgres_url: str, unique: str) -> Iterator[Database]:
    with closing(open_database(postgres_url, f"{unique}killer")) as opened:
        yield opened


def hang_up(tx: Transaction, killer: Database) -> None:
    """Terminate the server's side of this transaction's connection, and wait until it is gone."""
    backend = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
    killer.run(lambda other: other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": backend}).all())


def test_what_was_handled_is_looked_up_by_key_while_there_are_no_statistics(postgres_url: str, unique: str) -> None:
    metadata = MetaData()
    inbox = tables_of(metadata).inbox
    rows = [{"group_name": "reader", "id": f"{number:06}", "seen_at": 0} for number in range(20_000)]
    with closing(open_database(postgres_url, unique)) as db:
        db.create(metadata)
        db.run(lambda tx: tx.insert(inbox, rows))
    query = str(_seen(inbox, arrays=True).compile(dialect=make_url("postgresql+psycopg://").get_dialect()()))
    with psycopg.connect(postgres_url, options=f"-c search_path={unique}") as connection:
        wanted = {"mine": "reader", "ids": [row["id"] for row in rows[::100]]}
        assert len(connection.execute(query, wanted).fetchall()) == 200
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN ANALYZE {query}", wanted))
    assert "Rows Removed" not in plan
    assert re.search(r"inbox_pkey .* rows=1 loops=200", plan), plan


def test_a_connection_lost_before_the_commit_is_run_again(db: Database, killer: Database) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.execute(insert(rows), {"id": len(runs)})
        if len(runs) == 1:
            hang_up(tx, killer)
            tx.execute(select(rows))

    db.run(work)
    assert db.run(lambda tx: tx.execute(select(rows.c.id)).scalars().all()) == [2]


def test_a_connection_lost_while_many_rows_are_inserted_is_run_again(db: Database, killer: Database) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        if len(runs) == 1:
            hang_up(tx, killer)
        tx.insert(rows, [{"id": number} for number in range(5000)])

    db.run(work)
    assert len(runs) == 2
    assert len(db.run(lambda tx: tx.execute(select(rows.c.id)).scalars().all())) == 5000


def test_a_connection_lost_in_the_commit_is_reported_as_unknown(db: Database, killer: Database) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.execute(insert(rows), {"id": len(runs)})
        hang_up(tx, killer)

    with pytest.raises(DatabaseUnavailable, match="outcome is unknown"):
        db.run(work)
    assert len(runs) == 1
    assert db.run(lambda tx: tx.execute(select(rows.c.id)).all()) == []


def test_a_wrong_password_is_refused_at_once_and_not_shown(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    url = parts._replace(netloc=f"tutti:hush-hush@{parts.hostname}:{parts.port}").geturl()
    with (
        closing(open_database(url, "scheduler")) as refused,
        pytest.raises(DatabaseUnavailable, match="refused us") as raised,
    ):
        refused.run(lambda tx: None)
    assert "hush" not in str(raised.value)


def test_a_missing_database_is_named(postgres_url: str) -> None:
    url = urlsplit(postgres_url)._replace(path="/nowhere").geturl()
    with closing(open_database(url, "scheduler")) as refused, pytest.raises(DatabaseUnavailable, match="nowhere"):
        refused.run(lambda tx: None)


def test_a_server_without_a_free_connection_is_named_and_waited_for(postgres_url: str, unique: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {unique} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1".encode())
    url = f"postgresql://{unique}:secret@{postgres_url.rpartition('@')[2]}"
    with closing(PostgresDatabase(url, schema=unique, deadline_seconds=0.5)) as database:
        with psycopg.connect(url), pytest.raises(DatabaseUnavailable, match=r"too many connections .*waited 0\.5 s"):
            database.run(lambda tx: None)
        assert database.run(lambda tx: tx.execute(select(1)).scalar()) == 1


def test_a_schema_that_needs_quotes_is_refused(postgres_url: str) -> None:
    with pytest.raises(DatabaseError, match="cannot name a schema"):
        open_database(postgres_url, 'x"; DROP')


@pytest.fixture
def impatient(postgres_url: str, unique: str) -> Iterator[Database]:
    with closing(PostgresDatabase(postgres_url, schema=unique, deadline_seconds=0.5)) as opened:
        opened.create(metadata)
        yield opened


@pytest.fixture
def hanging() -> Iterator[Callable[[Transaction], None]]:
    """Stop the server's process of a transaction's connection, as a server that hangs does."""
    stopped: list[int] = []

    def hang(tx: Transaction) -> None:
        backend: int = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
        os.kill(backend, signal.SIGSTOP)
        stopped.append(backend)

    yield hang
    for backend in stopped:
        os.kill(backend, signal.SIGCONT)


@pytest.mark.parametrize(
    "statement",
    [lambda tx: tx.execute(select(rows)).all(), lambda tx: tx.insert(rows, [{"id": number} for number in range(5000)])],
    ids=["select", "many rows"],
)
def test_a_server_that_hangs_in_a_statement_is_named_in_time(
    impatient: Database, hanging: Callable[[Transaction], None], statement: Callable[[Transaction], object]
) -> None:
    def work(tx: Transaction) -> None:
        hanging(tx)
        statement(tx)

    with pytest.raises(DatabaseUnavailable, match=r"schema .*: no answer within 2\.5 s"):
        impatient.run(work)
    assert impatient.run(lambda tx: tx.execute(select(rows)).all()) == []


def test_a_server_that_hangs_in_a_commit_leaves_its_outcome_unknown(
    impatient: Database, hanging: Callable[[Transaction], None]
) -> None:
    def work(tx: Transaction) -> None:
        tx.execute(insert(rows), {"id": 1})
        hanging(tx)

    with pytest.raises(DatabaseUnavailable, match="outcome is unknown"):
        impatient.run(work)


def test_a_statement_that_takes_too_long_is_ended_by_the_server(impatient: Database) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"took more than 0\.5 s"):
        impatient.run(lambda tx: tx.execute(text("SELECT pg_sleep(60)")).all())


def test_a_flipped_byte_in_a_page_is_an_error_that_names_it_and_never_another_row(
    db: Database, postgres_url: str, unique: str
) -> None:
    with psycopg.connect(postgres_url, options=f"-c search_path={unique}", autocommit=True) as connection:
        name = flip_table(connection)
    with pytest.raises(DatabaseDamaged, match=f"invalid page in block 0 of relation {name}.*restore it from a backup"):
        db.run(lambda tx: tx.execute(text("SELECT id FROM plain")).scalars().all())
