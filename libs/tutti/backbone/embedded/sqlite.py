"""SQLite as the embedded adapters use it: one process, one connection, full synchronisation.

Promises: a file that another process has open is refused with its pid; a commit that returned is on disk; what SQLite
reports is named (full, corrupt, constraint, ...) together with the file.
"""

import contextlib
import os
import re
import sqlite3
from enum import Enum
from pathlib import Path

from tutti.backbone.files import Files, Lock, make_folders


class InUse(Exception):
    """Another process has the file."""


ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of the driver: the latter where a message quotes a schema whose text is damaged."""

CACHE_KIB = 1_024
"""Pages that a connection keeps in memory: a host has one for each service, and the system caches the files too."""

_LACKING = re.compile(r"no such (?:column|table): (\S+)|has no column named (\S+)")


class Trouble(Enum):
    FULL = "full"
    CORRUPT = "corrupt"
    CONSTRAINT = "constraint"
    STATEMENT = "statement"
    OTHER = "other"


def claim(files: Files, path: Path) -> Lock:
    """Lock a SQLite file for this process, by a file beside it. Raises InUse.

    Not the database file itself: closing any descriptor of it would drop SQLite's own locks.
    """
    make_folders(files, path.parent)
    beside = path.with_name(path.name + ".lock")
    lock = files.try_lock(beside)
    if lock is None:
        holder = ""
        with contextlib.suppress(OSError):
            holder = files.read(beside).decode(errors="replace").strip()
        raise InUse(
            f"{path} is in use by process {holder or 'unknown'}: one process owns each SQLite file; "
            f"stop it, or use another data directory"
        )
    with contextlib.suppress(OSError), open(beside, "w") as file:
        file.write(str(os.getpid()))  # a hint for the message above, not a promise
    return lock


def connect(path: Path | None) -> sqlite3.Connection:
    """Open a file (None: memory) in autocommit mode; transactions are written out by the caller."""
    connection = sqlite3.connect(
        ":memory:" if path is None else path, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        # EXCLUSIVE before the first access keeps the WAL index in memory: a second connection cannot exist, and with
        # it the WAL-reset bug of SQLite < 3.51.3.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def trouble(error: BaseException) -> Trouble:
    if isinstance(error, UnicodeDecodeError):
        return Trouble.CORRUPT
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return Trouble.OTHER
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL:
        return Trouble.FULL
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Trouble.CORRUPT
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return Trouble.CONSTRAINT
    if primary in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_MISUSE):
        return Trouble.STATEMENT
    return Trouble.OTHER


def lacking(error: BaseException) -> str:
    """Return the table or the column that a message says is not there; empty for another message."""
    found = _LACKING.search(str(error))
    return (found[1] or found[2]).rpartition(".")[2] if found else ""


def explain(error: BaseException, path: Path | None) -> str:
    """Return a message that says what happened to the file, and what to do."""
    where = path or "the in-memory database"
    kind = Trouble.CORRUPT if lacking(error) else trouble(error)
    advice = {
        Trouble.FULL: "the disk is full: free some space and try again; nothing was written",
        Trouble.CORRUPT: "the file is damaged or not a SQLite database: restore it from a backup",
    }.get(kind, "check that the file can be read and written")
    return f"{where}: {error}; {advice}"
