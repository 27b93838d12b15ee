"""Many rows at once on Postgres.

Promises: rows arrive in their order; what a column holds is the same however few there are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from sqlalchemy import BigInteger, Boolean, Column, Connection, Float, Integer, LargeBinary, String, Table, Text
from sqlalchemy.exc import DBAPIError

from tutti.backbone.transactions import executemany

FEW = 8
"""Fewer rows are not worth the exchanges of a COPY."""
_WIRE = {
    String: "text",
    Text: "text",
    BigInteger: "int8",
    Integer: "int4",
    LargeBinary: "bytea",
    Float: "float8",
    Boolean: "bool",
}


def insert_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows by COPY, which takes a fifth of the client's CPU time of an INSERT for each.

    Raises DBAPIError.
    """
    columns = [table.c[name] for name in rows[0]]
    if len(rows) < FEW or not _copyable(table, columns):
        executemany(connection, table, rows)
        return
    quote = connection.dialect.identifier_preparer.quote
    names = ", ".join(quote(column.name) for column in columns)
    statement = f"COPY {quote(table.name)} ({names}) FROM STDIN (FORMAT binary)"
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_WIRE[type(column.type)] for column in columns])
            for row in rows:
                copy.write_row([row[column.key] for column in columns])
    except psycopg.Error as error:
        if driver.closed:  # SQLAlchemy learns it from statements of its own alone
            connection.invalidate(error)
        raise DBAPIError(statement, None, error, connection_invalidated=driver.closed) from error


def _copyable(table: Table, columns: Sequence[Column[Any]]) -> bool:
    """True if every value goes on the wire as it is, and SQLAlchemy would fill no column of its own."""
    filled = {column.name for column in table.c if column.default is not None} - {column.name for column in columns}
    return not filled and all(type(column.type) in _WIRE for column in columns)
