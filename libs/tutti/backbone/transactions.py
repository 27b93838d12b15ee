"""The transaction that every SQL adapter hands out: SQLAlchemy Core over one connection.

Promises: after a failed statement nothing more can be done and nothing can be committed, except by leaving the
savepoint that it failed in; a serialization failure ends in a re-run even when `fn` swallowed it; hooks registered in
an undone savepoint are forgotten.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, Table, insert
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import DBAPIError

from tutti.backbone.database import DatabaseError

T = TypeVar("T")
Hook = Callable[[], None]
StatementError = DBAPIError | UnicodeDecodeError
STATEMENT_ERRORS = (DBAPIError, UnicodeDecodeError)
"""Errors of a failed statement: the latter where SQLite quotes a schema whose text is damaged."""
_log = logging.getLogger(__name__)
# Psycopg would forget how many rows an INSERT ... ON CONFLICT DO NOTHING has written.
_ROWCOUNT = {"preserve_rowcount": True}


class SerializationFailure(DatabaseError):
    """This run of the transaction lost against another: undo it and run `fn` again."""


class AbortedTransaction(DatabaseError):
    """A statement failed before and its savepoint was not left; nothing of this transaction can be committed."""


class NestedTransaction(DatabaseError):
    """`run` was called inside a transaction of the same database."""


def executemany(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows by a statement that is prepared once and run for each."""
    connection.execute(insert(table), rows)


class SqlTransaction:
    """One run of `fn`. The adapter begins, ends and translates."""

    def __init__(
        self,
        connection: Connection,
        *,
        now: Callable[[], datetime],
        translate: Callable[[StatementError], Exception],
        before_statement: Callable[[], None],
        skip_locked: bool,
        insert_many: Callable[[Connection, Table, Sequence[Mapping[str, Any]]], None] = executemany,
    ) -> None:
        self._connection = connection
        self._now, self._translate, self._before_statement = now, translate, before_statement
        self._skip_locked, self._insert_many = skip_locked, insert_many
        self._failed: Exception | None = None
        self._lost: SerializationFailure | None = None
        self._over = False
        self._hooks: list[Hook] = []

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        return self._do(lambda: self._connection.execute(statement, parameters, execution_options=_ROWCOUNT))

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self._do(lambda: self._insert_many(self._connection, table, rows))

    def savepoint(self, fn: Callable[[], T]) -> T:
        self._check()
        hooks = len(self._hooks)
        try:
            nested = self._connection.begin_nested()
        except DBAPIError as error:
            raise self._fail(error) from error
        try:
            result = fn()
            self._check()
            nested.commit()
        except BaseException as error:
            del self._hooks[hooks:]
            if isinstance(error, DBAPIError):
                error = self._fail(error)
            if self._lost is None:
                try:
                    nested.rollback()
                except DBAPIError as refused:
                    raise self._fail(refused) from error
                self._failed = None
            raise error
        return result

    def on_commit(self, hook: Hook) -> None:
        self._hooks.append(hook)

    def now(self) -> datetime:
        self._check()
        return self._now()

    @property
    def skip_locked(self) -> bool:
        return self._skip_locked

    def call(self, fn: Callable[["SqlTransaction"], T]) -> T:
        """Run `fn` and raise unless what it did may be committed."""
        try:
            result = fn(self)
        except DBAPIError as error:  # by another way than `execute`, such as a lazy fetch
            raise self._fail(error) from error
        except Exception as error:
            if self._lost is not None and error is not self._lost:
                raise self._lost from error
            raise
        self._check()
        return result

    def retire(self) -> list[Hook]:
        """The transaction has ended; whoever kept it is refused. Return its hooks, which it keeps no longer: they refer
        to their unit and that to the transaction, so all three would stay until a garbage collection.
        """
        self._over = True
        hooks, self._hooks = self._hooks, []
        return hooks

    def _do(self, statement: Callable[[], T]) -> T:
        self._check()
        try:
            self._before_statement()
            return statement()
        except STATEMENT_ERRORS as error:
            translated = self._fail(error)
            raise translated from (None if translated is error else error)
        except SerializationFailure as error:
            self._lost = self._failed = error
            raise

    def _check(self) -> None:
        if self._over:
            raise AbortedTransaction("the transaction is over: use tx only inside fn, and read results there")
        if self._lost is not None:
            raise self._lost
        if self._failed is not None:
            raise AbortedTransaction(
                f"a statement of this transaction failed before ({self._failed}); run what may fail inside "
                f"tx.savepoint, or let the error out of fn"
            )

    def _fail(self, error: StatementError) -> Exception:
        translated = self._translate(error)
        self._failed = translated
        if isinstance(translated, SerializationFailure):
            self._lost = translated
        return translated


def run_hooks(hooks: Sequence[Hook]) -> None:
    """Run what waited for the commit; the commit stands whatever they do, so their errors are logged."""
    for hook in hooks:
        try:
            hook()
        except Exception:
            _log.exception("a hook failed after its transaction was committed")
