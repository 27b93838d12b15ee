"""Database in one SQLite file: one thread owns it, one transaction at a time.

Promises: as the port; and it is never kinder than a server: a failed statement poisons its transaction, and given
`failures` it loses transactions on that seed as SERIALIZABLE does.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, MetaData, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tutti.backbone import migrations
from tutti.backbone.clock import Clock, SystemClock
from tutti.backbone.database import (
    Conflict,
    Contention,
    DatabaseDamaged,
    DatabaseError,
    DatabaseUnavailable,
    Isolation,
    StorageFull,
    Transaction,
)
from tutti.backbone.embedded import sqlite
from tutti.backbone.embedded.owner import Owner, OwnerClosed
from tutti.backbone.embedded.sqlite import Trouble
from tutti.backbone.files import Files, Lock, RealFiles
from tutti.backbone.migrations import History
from tutti.backbone.randomness import Randomness
from tutti.backbone.transactions import (
    STATEMENT_ERRORS,
    Hook,
    NestedTransaction,
    SerializationFailure,
    SqlTransaction,
    run_hooks,
)

T = TypeVar("T")
MAX_RUNS = 50
COMPILED = 4000
"""Statements that are kept compiled: some hundred a service, and all services may be in one process."""


class EmbeddedDatabase:
    """`path` None keeps it in memory; `inline` uses the caller's thread (simulation)."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        inline: bool = False,
        failures: Randomness | None = None,
        failure_probability: float = 0.05,
    ) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._failures, self._failure_probability = failures, failure_probability
        self._inside = threading.local()
        self._lock: Lock | None = None
        self._names: set[str] = set()
        """Tables and columns that were created here."""
        try:
            if path is not None:
                self._lock = sqlite.claim(files or RealFiles(), path)
            self._connection = _connect(path)
        except sqlite.InUse as error:
            raise DatabaseUnavailable(str(error)) from None
        except (DBAPIError, OSError, *sqlite.ERRORS) as error:
            self._release()
            raise self._translate(error) from error
        self._owner = Owner(f"database {path.stem if path else 'memory'}", inline=inline)

    def create(self, metadata: MetaData, histories: Sequence[History] = ()) -> None:
        for table in metadata.tables.values():
            self._names |= {table.name, *(column.name for column in table.columns)}

        def work() -> None:
            try:
                with self._connection.begin():
                    migrations.bring_up(self._connection, metadata, histories)
            except STATEMENT_ERRORS as error:
                raise self._translate(error) from error

        self._call(work)

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        del isolation  # one writer at a time: every transaction is serial
        result, hooks = self._call(lambda: self._until_it_wins(fn))
        run_hooks(hooks)
        return result

    def copy(self, to: Path, meet: Callable[[], None]) -> None:
        """Write a copy of the file to `to` between two transactions, after `meet` returned in the owner's thread.

        Raises DatabaseError, and what `meet` raises.
        """

        def work() -> None:
            meet()
            try:
                with closing(sqlite3.connect(to)) as target:
                    self._connection.connection.driver_connection.backup(target)  # type: ignore[union-attr]
            except sqlite3.Error as error:
                raise DatabaseError(sqlite.explain(error, to)) from error

        self._call(work)

    def close(self) -> None:
        self._owner.close(self._end)

    def _call(self, work: Callable[[], T]) -> T:
        try:
            return self._owner.call(work)
        except OwnerClosed:
            raise DatabaseUnavailable(f"{self._path or 'the in-memory database'} is closed") from None

    def _until_it_wins(self, fn: Callable[[Transaction], T]) -> tuple[T, list[Hook]]:
        if getattr(self._inside, "transaction", False):
            raise NestedTransaction("run was called inside a transaction of the same database: use its tx instead")
        self._inside.transaction = True
        try:
            for _ in range(MAX_RUNS):
                try:
                    return self._once(fn)
                except SerializationFailure:
                    continue
        finally:
            self._inside.transaction = False
        raise Contention(f"the transaction lost {MAX_RUNS} times in a row and was given up; nothing was written")

    def _once(self, fn: Callable[[Transaction], T]) -> tuple[T, list[Hook]]:
        tx = SqlTransaction(
            self._connection,
            now=self._clock.now,
            translate=self._translate,
            before_statement=self._perhaps_lose,
            skip_locked=False,
        )
        try:
            transaction = self._connection.begin()
        except STATEMENT_ERRORS as error:
            raise self._translate(error) from error
        try:
            result = tx.call(fn)
            self._perhaps_lose()
            transaction.commit()
        except DBAPIError as error:
            transaction.rollback()
            raise self._translate(error) from error
        except BaseException:
            transaction.rollback()
            raise
        finally:
            hooks = tx.retire()
        return result, hooks

    def _perhaps_lose(self) -> None:
        if self._failures is not None and self._failures.uniform(0, 1) < self._failure_probability:
            raise SerializationFailure("injected: another transaction came first")

    def _translate(self, error: BaseException) -> Exception:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        kind = sqlite.trouble(cause)
        if kind is Trouble.CONSTRAINT:
            return Conflict(str(cause))
        if kind is Trouble.STATEMENT and sqlite.lacking(cause) in self._names:
            return DatabaseDamaged(sqlite.explain(cause, self._path))  # SQLite has its schema as a text alone
        if kind is Trouble.STATEMENT and isinstance(error, Exception):
            return error
        if kind is Trouble.FULL:
            return StorageFull(sqlite.explain(cause, self._path))
        if kind is Trouble.CORRUPT:
            return DatabaseDamaged(sqlite.explain(cause, self._path))
        if kind is Trouble.OTHER and isinstance(error, DBAPIError) and not hasattr(cause, "sqlite_errorcode"):
            return error  # the driver refused the parameters
        return DatabaseError(sqlite.explain(cause, self._path))

    def _end(self) -> None:
        self._connection.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


_opened: ContextVar[Path | None] = ContextVar("tutti_opened")


@cache
def _engine() -> Engine:
    """One for all databases, each of them a connection: what it compiled for one is good for all with its tables."""
    engine = create_engine(
        "sqlite://", creator=lambda: sqlite.connect(_opened.get()), poolclass=NullPool, query_cache_size=COMPILED
    )
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _connect(path: Path | None) -> Connection:
    token = _opened.set(path)
    try:
        return _engine().connect()
    finally:
        _opened.reset(token)


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
