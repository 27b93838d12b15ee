"""Copies between the schemas of a Postgres database and SQLite files with the same tables.

Promises: all schemas are read in one snapshot while their services go on; tables that the two sides do not share are
refused by name; all schemas are filled or none; rows belong to the role of their service where there is one.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import psycopg
from psycopg import IsolationLevel, sql

from tutti.backbone.database import DatabaseError, DatabaseUnavailable
from tutti.backbone.postgres.connection import BoundedConnection, bounded, place

CONNECT_SECONDS = 10
ANSWER_SECONDS = 120.0  # of the server, for one batch or one index
BATCH = 1000
Columns = dict[str, list[str]]
REVISION = ["version_num"]
"""The columns of the tables that record a revision; they are compared and not copied."""


def schema_of(service: str) -> str:
    """Return the name of the schema that holds the tables of a service."""
    return service.replace("-", "_")


def filled(url: str, services: list[str]) -> list[str]:
    """Return the services that have tables. Raises DatabaseError."""
    with _connected(url) as connection:
        return [service for service in services if _columns(connection, schema_of(service))]


def dump(url: str, files: Mapping[str, Path]) -> None:
    """Add the rows of each service to its SQLite file, which has its tables. Raises DatabaseError."""
    with _connected(url) as connection:
        connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
        for service, file in sorted(files.items()):
            with closing(sqlite3.connect(file, isolation_level=None)) as target:
                target.execute("BEGIN")
                columns = _shared(service, _columns(connection, schema_of(service)), _columns_of_file(target))
                _require_revision(connection, service, target)
                for table, names in columns.items():
                    _read(connection, sql.Identifier(schema_of(service), table), table, names, target)
                target.execute("COMMIT")


def load(url: str, files: Mapping[str, Path], create: Callable[[str, str], None]) -> None:
    """Replace the rows of each service's schema by those of its SQLite file. Raises DatabaseError.

    `create` makes the tables of a service, given its name and a URL whose connections act as its role.
    """
    with _connected(url) as connection:
        roles = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
        connection.commit()
        for service in sorted(files):
            create(service, _acting_as(url, service) if service in roles else url)
        for service, file in sorted(files.items()):
            with closing(sqlite3.connect(file)) as source:
                schema = schema_of(service)
                columns = _shared(service, _columns_of_file(source), _columns(connection, schema))
                for table, names in columns.items():
                    connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(schema, table)))
                    _write(connection, sql.Identifier(schema, table), table, names, source)
                _advance(connection, schema, source)
        connection.commit()


def as_owners(url: str, services: list[str]) -> dict[str, str]:
    """Return by service a URL whose connections act as the owner of its schema. Raises DatabaseError."""
    query = "SELECT nspname, pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspowner <> current_user::regrole"
    with _connected(url) as connection:
        owners = dict(connection.execute(query).fetchall())
    named = {service: owners.get(schema_of(service)) for service in services}
    return {service: _acting_as(url, owner) if owner else url for service, owner in named.items()}


def _acting_as(url: str, role: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options=-crole%3D{role}"


def _read(
    connection: BoundedConnection, name: sql.Identifier, table: str, columns: list[str], target: sqlite3.Connection
) -> None:
    quoted = ", ".join(f'"{column}"' for column in columns)
    insert = f'INSERT INTO "{table}" ({quoted}) VALUES ({", ".join("?" * len(columns))})'  # noqa: S608
    query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(map(sql.Identifier, columns)), name)
    with connection.cursor(name="copy") as rows:
        rows.itersize = BATCH
        rows.execute(query)
        target.executemany(insert, rows)


def _write(
    connection: BoundedConnection, name: sql.Identifier, table: str, columns: list[str], source: sqlite3.Connection
) -> None:
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    quoted = ", ".join(f'"{column}"' for column in columns)
    rows = source.execute(f'SELECT {quoted} FROM "{table}"')  # noqa: S608
    with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(name, listed)) as copy:
        while batch := list(islice(rows, BATCH)):
            for row in batch:
                copy.write_row(row)


def _advance(connection: BoundedConnection, schema: str, source: sqlite3.Connection) -> None:
    """Continue the serial numbers of each table after those that were given."""
    if not source.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone():
        return
    for table, highest in source.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
        found = connection.execute("SELECT pg_get_serial_sequence(%s, 'seq')", [f"{schema}.{table}"]).fetchone()
        if found and found[0] and highest:
            connection.execute("SELECT setval(%s, %s)", [found[0], highest])


def _shared(service: str, held: Columns, target: Columns) -> Columns:
    """Return the tables of both sides. Raises DatabaseError unless they have the same columns."""
    for table in sorted({*held, *target}):
        there, here = sorted(held.get(table, ())), sorted(target.get(table, ()))
        if there != here:
            raise DatabaseError(
                f"the table {table} of {service} has columns {', '.join(there) or 'none'}, this version expects "
                f"{', '.join(here) or 'none'}: use the version of Tutti that the services run"
            )
    return {table: columns for table, columns in held.items() if columns != REVISION}


def _require_revision(connection: BoundedConnection, service: str, target: sqlite3.Connection) -> None:
    """Raise DatabaseError unless the tables have the revision of this version."""
    for table in sorted(table for table, columns in _columns_of_file(target).items() if columns == REVISION):
        query = sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema_of(service), table))
        there = sorted(connection.execute(query).fetchall())
        here = sorted(target.execute(f"SELECT version_num FROM {table}").fetchall())  # noqa: S608
        if there != here:
            raise DatabaseError(
                f"the tables of {service} have revision {there[0][0] if there else 'none'} ({table}), this version "
                f"expects {here[0][0]}: use the version of Tutti that the services run"
            )


def _columns(connection: BoundedConnection, schema: str) -> Columns:
    query = (
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
        "WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY c.relname, a.attnum"
    )
    found: Columns = {}
    for table, column in connection.execute(query, [schema]).fetchall():
        found.setdefault(table, []).append(column)
    return found


def _columns_of_file(file: sqlite3.Connection) -> Columns:
    tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()
    return {
        table: [column for (column,) in file.execute("SELECT name FROM pragma_table_info(?)", [table])]
        for (table,) in sorted(tables)
    }


@contextmanager
def _connected(url: str) -> Iterator[BoundedConnection]:
    """Raises DatabaseUnavailable, DatabaseError."""
    where = place(url)
    try:
        connection = bounded(ANSWER_SECONDS).connect(url, connect_timeout=CONNECT_SECONDS)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"{where} cannot be reached: {str(error).strip()}") from None
    with closing(connection):
        try:
            yield connection  # what was not committed is undone
        except psycopg.errors.InsufficientPrivilege as error:
            raise DatabaseError(
                f"{where}: {_first_line(error)}; expected a role that is a member of every service's role"
            ) from error
        except psycopg.Error as error:
            raise DatabaseError(f"{where}: {_first_line(error)}") from error


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]
