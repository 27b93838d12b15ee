"""One flipped bit: in a file, in a page of it, in a table, in a row."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg


def flipped(content: bytes) -> bytes:
    """The lowest bit of the middle byte is another."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def flip_file(path: Path) -> bytes:
    """Damage a file; what it held before."""
    whole = path.read_bytes()
    path.write_bytes(flipped(whole))
    return whole


def flip_page(path: Path, bit: int) -> None:
    """Damage one bit of a file in place, counted from its first byte."""
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def flip_table(connection: "psycopg.Connection[Any]") -> str:
    """Make the table `plain` of 100 rows in Postgres, and damage its page on the disk; the name of its file.

    The connection commits by itself. The table has no index, so what rewrites it leaves no page of it in the cache of
    the server.
    """
    connection.execute("CREATE TABLE plain AS SELECT id FROM generate_series(1, 100) AS id")
    connection.execute("VACUUM FULL plain")
    connection.execute("CHECKPOINT")
    [(folder, name)] = connection.execute("SELECT current_setting('data_directory'), pg_relation_filepath('plain')")
    flip_file(Path(folder, name))
    return str(name)


def flip_row(database: Path, table: str, column: str, name: str) -> None:
    """Damage the column of one row of a database that nobody has open."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        (content,) = connection.execute(f"SELECT {column} FROM {table} WHERE name = ?", (name,)).fetchone()  # noqa: S608
        done = connection.execute(f"UPDATE {table} SET {column} = ? WHERE name = ?", (flipped(content), name))  # noqa: S608
        assert done.rowcount == 1
