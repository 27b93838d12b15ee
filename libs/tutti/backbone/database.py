"""The database of one service: transactions as functions that can be run again.

Promises: `run(fn)` commits what `fn(tx)` did entirely or not at all; SERIALIZABLE unless told otherwise; a
serialization failure re-runs `fn`, so `fn` touches nothing but `tx`; hooks given to `tx.on_commit` run once, after the
commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:  # who only catches these errors imports no SQL
    from sqlalchemy import Executable, MetaData, Table
    from sqlalchemy.engine import CursorResult

    from tutti.backbone.migrations import History

T = TypeVar("T")


class Isolation(Enum):
    SERIALIZABLE = "SERIALIZABLE"
    READ_COMMITTED = "READ COMMITTED"


class DatabaseError(Exception):
    """Any failure of the database that is not the statement's own fault."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached, or is closed; nothing is known of a commit that was under way."""


class Contention(DatabaseError):
    """The transaction was re-run as often as allowed and still lost against others."""


class Conflict(DatabaseError):
    """A unique key or another constraint refused the write."""


class DatabaseDamaged(DatabaseError):
    """A page or a file is damaged, and the message names it; rows elsewhere may still be read."""


class StorageFull(DatabaseError):
    """The disk that holds the database is full; nothing was written."""


class Transaction(Protocol):
    """The transaction that `fn` uses. Statements are SQLAlchemy Core."""

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        """Run a statement; read its result inside `fn`. Raises Conflict.

        After a failed statement nothing more can be done, except by leaving the savepoint that it failed in.
        """
        ...

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that have the same columns, in their order, by the fastest way that the database has.

        `rows` may be empty. Raises Conflict; no row is inserted then.
        """
        ...

    def savepoint(self, fn: Callable[[], T]) -> T:
        """Run `fn` inside a savepoint: if it raises, only its own writes are undone and the error goes on."""
        ...

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Run after the commit, in the thread that called `run`; what a hook raises is logged."""
        ...

    def now(self) -> datetime:
        """The database's clock on a server, the injected clock elsewhere (UTC)."""
        ...

    @property
    def skip_locked(self) -> bool:
        """True if the database supports SELECT ... FOR UPDATE SKIP LOCKED (otherwise there is one writer at a time)."""
        ...


class Database(Protocol):
    def create(self, metadata: MetaData, histories: Sequence[History] = ()) -> None:
        """Create the missing tables and indexes, or run the revisions of `histories` that the database lacks.

        Idempotent, in one transaction, safe from several processes at once. Raises NewerSchema.
        """
        ...

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Readable:
    """A view that people read with SQL.

    `messages` are the protobuf types that views decode: fields by number, and the values of absent ones. `views` are
    queries by name, in which `{schema}` and `{views}` stand for the schemas of the tables and of the views.
    """

    messages: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]
    views: Mapping[str, str]


@runtime_checkable
class Publishing(Protocol):
    """A database that people read with SQL too: one on a server."""

    def publish(self, readable: Readable) -> None:
        """Make the views of the service, unless they are these already."""
        ...
