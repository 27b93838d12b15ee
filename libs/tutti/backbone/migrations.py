"""Migrations: the revisions that bring the tables of one database to those of this version.

A history is a folder of revisions, each a module `NUMBER_what_changes.py` with a function `upgrade(op)` of Alembic's
operations. A database has one history or several, each of tables of its own, and records for each the newest revision
that it has, in a table as Alembic makes it.

Promises: Alembic, whose import takes 0.4 s of CPU time and 14 MB, is only loaded where a database with tables lacks a
revision: those of a new database are created as the newest revisions leave them. All revisions that are due run in the
transaction of the caller, so a process that is killed between two statements leaves the tables as they were; a database
of a newer version is refused. The revisions that a database lacks are known without Alembic, too: all with a greater
number, so a number may be left out of a history, as long as it is not the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, delete, insert, inspect, select, text

from tutti.backbone.database import DatabaseError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from tutti.backbone.database import Transaction

VERSIONS = "alembic_version"
"""The table with the revision of a history, unless the history names another."""


class NewerSchema(DatabaseError):
    """The tables were written by a newer version."""


@dataclass(frozen=True)
class History:
    """The revisions in a folder. `tables` says in messages whose tables they make; `versions` is the table that records
    the newest revision of a database."""

    folder: Path
    tables: str
    versions: str = VERSIONS

    def revisions(self) -> dict[str, Path]:
        """Return the module of each revision, oldest first."""
        return {path.stem.partition("_")[0]: path for path in sorted(self.folder.glob("[0-9]*.py"))}

    def newest(self) -> str:
        """Return the newest revision; empty if there is none."""
        return max(self.revisions(), default="")

    def lacking(self, revision: str) -> list[str]:
        """Return the revisions after that of a database, oldest first. Raises NewerSchema."""
        if revision > self.newest():
            raise NewerSchema(
                f"{self.tables} have revision {revision}, this version knows up to {self.newest() or 'none'}: "
                "install the newer Tutti that upgraded them"
            )
        return [each for each in self.revisions() if each > revision]


@dataclass(frozen=True)
class Held:
    """The tables of a database, and the revision of each history that it records; empty if it records none."""

    tables: frozenset[str]
    revisions: Mapping[History, str]


def held(tx: Transaction, histories: Sequence[History]) -> Held:
    """Read the tables and the revisions of a database; changes nothing."""
    tables = frozenset(inspect(tx.execute(text("SELECT 1")).connection).get_table_names())
    revisions = {
        each: str(tx.execute(_recorded(each)).scalar() or "") if each.versions in tables else "" for each in histories
    }
    return Held(tables - {each.versions for each in histories}, revisions)


def upgrade(connection: Connection, history: History) -> None:
    """Run the revisions of `history` that the database lacks, in their order. Raises NewerSchema."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    known = inspect(connection).has_table(history.versions)
    due = history.lacking(connection.execute(_recorded(history)).scalar() or "" if known else "")
    with Operations.context(MigrationContext.configure(connection)) as op:
        for each in due:
            _module(history.revisions()[each]).upgrade(op)
    _record(connection, history)


def bring_up(
    connection: Connection,
    metadata: MetaData,
    histories: Sequence[History],
    *,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Upgrade the tables by their histories, one after another, after `before()`; without any, create missing tables.

    Raises NewerSchema.
    """
    if not histories:
        metadata.create_all(connection)
        return
    tables = set(inspect(connection).get_table_names())
    if metadata.tables and tables.isdisjoint({*metadata.tables, *(each.versions for each in histories)}):
        # A test checks that the histories of a service make the tables of its metadata.
        metadata.create_all(connection)
        for each in histories:
            _record(connection, each)
    elif not all(
        each.versions in tables and connection.execute(_recorded(each)).scalar() == each.newest() for each in histories
    ):
        before()
        for each in histories:
            upgrade(connection, each)


def _versions(history: History) -> Table:
    """The table with the revision, as Alembic makes it."""
    number = Column("version_num", String(32), nullable=False)
    return Table(history.versions, MetaData(), number, PrimaryKeyConstraint(number, name=f"{history.versions}_pkc"))


def _recorded(history: History) -> Select[tuple[str]]:
    return select(_versions(history).c.version_num)


def _record(connection: Connection, history: History) -> None:
    """Record the newest revision."""
    versions = _versions(history)
    versions.create(connection, checkfirst=True)
    connection.execute(delete(versions))
    connection.execute(insert(versions).values(version_num=history.newest()))


def _module(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
