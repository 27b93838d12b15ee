"""Migrations: the revisions that bring the tables of one service to those of this version (Alembic).

A history is a folder of revisions, each a module `REVISION_what_changes.py` with `revision`, `down_revision` and
`upgrade(op)`. The database records its revision in `alembic_version`.

Promises: Alembic, whose import takes 0.4 s of CPU time and 14 MB, is only loaded where a database with tables lacks a
revision: those of a new database are created as the newest revision leaves them. All revisions that are due run in the
transaction of the caller, so a process that is killed between two statements leaves the tables as they were; a database
of a newer version is refused. The revisions that a database lacks are known without Alembic, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, text

from tutti.backbone.database import DatabaseError

if TYPE_CHECKING:
    from alembic.script import Script, ScriptDirectory
    from sqlalchemy import Connection

    from tutti.backbone.database import Transaction

VERSIONS = "alembic_version"
"""Alembic's table with the revision of a database."""


class NewerSchema(DatabaseError):
    """The tables were written by a newer version."""


@dataclass(frozen=True)
class Held:
    """The tables of a database, and the revision that it records; empty if it records none."""

    tables: frozenset[str]
    revision: str


def held(tx: Transaction) -> Held:
    """Read the tables and the revision of a database; changes nothing."""
    tables = frozenset(inspect(tx.execute(text("SELECT 1")).connection).get_table_names())
    recorded = tx.execute(text(f"SELECT version_num FROM {VERSIONS}")).scalar() if VERSIONS in tables else None  # noqa: S608
    return Held(tables - {VERSIONS}, str(recorded or ""))


def lacking(revision: str, history: Path) -> list[str]:
    """Return the revisions after that of a database, oldest first. Raises NewerSchema."""
    known = _names(history)
    if revision and revision not in known:
        raise _newer(history, [revision], known)
    return [each for each in known if each > revision]


def upgrade(connection: Connection, history: Path) -> None:
    """Run the revisions of `history` that the database lacks, in their order. Raises NewerSchema."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    context, revisions = MigrationContext.configure(connection), directory(history)
    with Operations.context(context) as op:
        for script in due(revisions, context.get_current_heads(), history):
            script.module.upgrade(op)
    context.stamp(revisions, "heads")


def bring_up(
    connection: Connection, metadata: MetaData, history: Path | None, *, before: Callable[[], None] = lambda: None
) -> None:
    """Upgrade the tables by their history, after `before()`; without one, create those that are missing.

    Raises NewerSchema.
    """
    if history is None:
        metadata.create_all(connection)
    elif _is_new(connection, metadata):
        metadata.create_all(connection)
        _record(connection, newest(history))
    elif not _is_current(connection, history):
        before()
        upgrade(connection, history)


def newest(history: Path) -> str:
    """Return the newest revision of a history, by the names of its modules."""
    return max(_names(history), default="")


def _names(history: Path) -> list[str]:
    return sorted(path.stem.partition("_")[0] for path in history.glob("[0-9]*.py"))


def _is_new(connection: Connection, metadata: MetaData) -> bool:
    """True if none of the tables exists. A test checks that the history of a service makes those of its metadata."""
    known = {VERSIONS, *metadata.tables}
    return bool(metadata.tables) and known.isdisjoint(inspect(connection).get_table_names())


def _record(connection: Connection, revision: str) -> None:
    """Create the table with the revision as Alembic does."""
    number = Column("version_num", String(32), nullable=False)
    versions = Table(VERSIONS, MetaData(), number, PrimaryKeyConstraint("version_num", name=f"{VERSIONS}_pkc"))
    versions.create(connection)
    connection.execute(insert(versions).values(version_num=revision))


def _is_current(connection: Connection, history: Path) -> bool:
    if not inspect(connection).has_table(VERSIONS):
        return False
    recorded = connection.execute(text(f"SELECT version_num FROM {VERSIONS}")).scalars().all()  # noqa: S608
    return list(recorded) == [newest(history)]


def due(revisions: ScriptDirectory, current: tuple[str, ...], history: Path) -> list[Script]:
    """Return the revisions after `current`, the heads that a database has, oldest first. Raises NewerSchema."""
    known = {script.revision for script in revisions.walk_revisions()}
    if unknown := sorted(set(current) - known):
        raise _newer(history, unknown, revisions.get_heads())
    return list(reversed(list(revisions.iterate_revisions("heads", current or "base"))))


def _newer(history: Path, seen: list[str], known: list[str]) -> NewerSchema:
    return NewerSchema(
        f"the tables of {history.parent.name} have revision {', '.join(seen)}, this version knows up to "
        f"{known[-1] if known else 'none'}: install the newer Tutti that upgraded them"
    )


def directory(history: Path) -> ScriptDirectory:
    """The revisions in a folder."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(history), version_locations=[str(history)])
