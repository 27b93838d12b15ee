"""Database in Postgres: one schema a service.

Promises: as the port; a server that hangs is reported in time, as one that is away is; a run that was lost to another
transaction, or to a connection that broke before its commit, is run again; a connection that breaks during the commit
is reported, because nobody knows its outcome.
"""

import itertools
import re
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar
from zlib import crc32

import psycopg
from sqlalchemy import Connection, Engine, MetaData, RootTransaction, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tutti.backbone import migrations
from tutti.backbone.backoff import Backoff
from tutti.backbone.database import (
    Conflict,
    Contention,
    DatabaseDamaged,
    DatabaseError,
    DatabaseUnavailable,
    Isolation,
    Readable,
    StorageFull,
    Transaction,
)
from tutti.backbone.migrations import History
from tutti.backbone.postgres import schemas, views
from tutti.backbone.postgres.bulk import insert_many
from tutti.backbone.postgres.connection import (
    BoundedConnection,
    NoAnswer,
    bounded,
    engine_url,
    has_several_hosts,
    place,
)
from tutti.backbone.randomness import Randomness, SystemRandomness
from tutti.backbone.transactions import (
    Hook,
    NestedTransaction,
    SerializationFailure,
    SqlTransaction,
    StatementError,
    run_hooks,
)

T = TypeVar("T")
MAX_RUNS = 40
GRACE_SECONDS = 2.0
HOST_SECONDS = 2
"""To connect to one of several hosts, because one that hangs must leave time for the others."""
UPGRADE_SECONDS = 6 * 3600.0
"""For a statement of an upgrade, which may write each of tens of millions of rows, at some thousands a second."""
CLIENT_CHECK = "10s"
"""The interval at which the server looks whether the client of an upgrade is there; it would go on for a killed one."""
_BACKOFF = Backoff(0.002, 0.1)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,50}")
_SERIALIZATION = ("40001", "40P01")
_TOO_SLOW = "57014"
_IDLE = "25P03"
_NOBODY_THERE = ("57P01", "57P02", "57P03", "53300")
_NOT_ALLOWED = "42501"
_DAMAGED = ("XX001", "XX002", "58030")
"""SQLSTATEs of a damaged page, a damaged index, and an I/O error."""
_HOLDERS = """
SELECT DISTINCT a.pid, a.usename, a.xact_start AT TIME ZONE 'UTC'
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_class c ON c.oid = l.relation
WHERE l.granted AND a.pid <> pg_backend_pid() AND a.datname = current_database() AND (
    c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :schema)
    OR (l.locktype = 'advisory' AND l.classid = 0 AND CAST(l.objid AS bigint) = :key))
ORDER BY a.pid
"""
_RESTORE = "what it reads from its disk is damaged: restore it from a backup"


class _ConnectionLost(DatabaseUnavailable):
    """The connection broke before the commit was sent: nothing happened, so run again."""


class PostgresDatabase:
    """`url` is `postgresql://user:password@host:port[,host:port]/database`.

    With several hosts, `?target_session_attrs=read-write` finds the one that is the primary.

    `deadline_seconds` bounds each wait: for an absent server, for a statement, for a lock, for a free connection. The
    server has `GRACE_SECONDS` more to report a statement or lock that took too long, before it counts as hung. A client
    that hangs inside a transaction for `deadline_seconds` loses it, and with it the locks that others wait for. Only
    statements of an upgrade have UPGRADE_SECONDS; its locks have `deadline_seconds` too, and who holds them is named.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        pool_size: int = 8,
        deadline_seconds: float = 10,
        randomness: Randomness | None = None,
    ) -> None:
        self._schema = schema.replace("-", "_")
        self._lock_key = crc32(self._schema.encode())
        if not _NAME.fullmatch(self._schema):
            raise DatabaseError(f"{schema!r} cannot name a schema: lower case letters, digits and _ are accepted")
        target = engine_url(url)
        self._where = f"{place(url)}, schema {self._schema}"
        self._deadline_seconds = deadline_seconds
        self._randomness = randomness or SystemRandomness()
        self._inside = threading.local()
        self._closed = False
        milliseconds = int(deadline_seconds * 1000)
        options = str(target.query.get("options", ""))
        self._engine = create_engine(
            target.difference_update_query(["options"]),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=deadline_seconds,
            connect_args={
                "connect_timeout": HOST_SECONDS if has_several_hosts(url) else max(2, int(deadline_seconds)),
                "options": f"-c search_path={self._schema} -c timezone=UTC -c lock_timeout={milliseconds} "
                f"-c statement_timeout={milliseconds} "
                f"-c idle_in_transaction_session_timeout={milliseconds} {options}",
                "keepalives_idle": 10,
                "tcp_user_timeout": milliseconds,
            },
        )
        connections = bounded(deadline_seconds + GRACE_SECONDS)
        event.listen(
            self._engine, "do_connect", lambda _dialect, _record, cargs, cparams: connections.connect(*cargs, **cparams)
        )
        self._engines: dict[Isolation, Engine] = {
            isolation: self._engine.execution_options(isolation_level=isolation.value) for isolation in Isolation
        }

    def create(self, metadata: MetaData, histories: Sequence[History] = ()) -> None:
        def work(connection: Connection) -> None:
            schemas.ensure(connection, self._schema, views.views_of(self._schema))
            migrations.bring_up(connection, metadata, histories, before=lambda: self._begin_upgrade(connection))

        self._locked(work)

    def _begin_upgrade(self, connection: Connection) -> None:
        """Give the statements of this transaction their time, and remove the views of what they change."""
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.execute(text(f"SET LOCAL {name} = '{UPGRADE_SECONDS:.0f}s'"))
        connection.execute(text(f"SET LOCAL client_connection_check_interval = '{CLIENT_CHECK}'"))
        _driver(connection).answer_seconds = UPGRADE_SECONDS + GRACE_SECONDS
        views.withdraw(connection, self._schema)

    def publish(self, readable: Readable) -> None:
        """Let people read rows with SQL, in a schema beside the tables."""
        self._locked(lambda connection: views.publish(connection, self._schema, readable))

    def _locked(self, work: Callable[[Connection], None]) -> None:
        """Run in a transaction of its own, one process at a time.

        Of two CREATE IF NOT EXISTS at once both may find nothing, and then one of them fails.
        """

        def once() -> None:
            connection, transaction = self._begin(Isolation.READ_COMMITTED)
            with connection:
                driver = _driver(connection)
                usual = driver.answer_seconds
                try:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": self._lock_key})
                    work(connection)
                    transaction.commit()
                except DBAPIError as error:
                    translated = self._translate(error, driver.answer_seconds - GRACE_SECONDS)
                    if isinstance(translated, Contention):
                        transaction.rollback()
                        translated = Contention(f"{translated}; {self._holders(connection)}")
                    raise translated from error
                finally:
                    driver.answer_seconds = usual

        self._until_it_wins(once)

    def _holders(self, connection: Connection) -> str:
        """The processes that hold locks of the schema now, for messages."""
        try:
            rows = connection.execute(text(_HOLDERS), {"schema": self._schema, "key": self._lock_key}).all()
        except DBAPIError:
            return "who holds it cannot be seen"
        named = [
            f"process {pid} of role {role}" + (f", since {since:%H:%M:%S} UTC" if since else "")
            for pid, role, since in rows
        ]
        return f"locks there are held by {'; '.join(named)}" if named else "nobody holds one any more: try again"

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        if getattr(self._inside, "transaction", False):
            raise NestedTransaction("run was called inside a transaction of the same database: use its tx instead")
        self._inside.transaction = True
        try:
            result, hooks = self._until_it_wins(lambda: self._once(fn, isolation))
        finally:
            self._inside.transaction = False
        run_hooks(hooks)
        return result

    def close(self) -> None:
        self._closed = True
        self._engine.dispose()

    def _until_it_wins(self, once: Callable[[], T]) -> T:
        lost, gone_since = 0, None
        for run in itertools.count(1):
            began = time.monotonic()
            if self._closed:
                raise DatabaseUnavailable(f"{self._where} is closed")
            try:
                return once()
            except SerializationFailure as error:
                lost += 1
                if lost == MAX_RUNS:
                    raise Contention(
                        f"the transaction lost {MAX_RUNS} times in a row and was given up; nothing was written"
                    ) from error
            except _ConnectionLost as error:
                gone_since = gone_since or began
                if time.monotonic() - gone_since > self._deadline_seconds:
                    raise DatabaseUnavailable(f"{error}; waited {self._deadline_seconds:g} s for it") from error
            time.sleep(_BACKOFF.drawn(run, self._randomness.uniform))
        raise AssertionError("unreachable: the loop returns or raises")

    def _begin(self, isolation: Isolation) -> tuple[Connection, RootTransaction]:
        try:
            connection = self._engines[isolation].connect()
            return connection, connection.begin()
        except DBAPIError as error:
            raise self._translate(error) from error
        except PoolTimeout as error:
            raise DatabaseUnavailable(f"{self._where}: all connections were busy for too long: {error}") from error

    def _once(self, fn: Callable[[Transaction], T], isolation: Isolation) -> tuple[T, list[Hook]]:
        connection, transaction = self._begin(isolation)
        tx = SqlTransaction(
            connection,
            now=lambda: _now(connection),
            translate=self._translate,
            before_statement=lambda: None,
            skip_locked=True,
            insert_many=insert_many,
        )
        with connection:
            try:
                result = tx.call(fn)
            finally:
                hooks = tx.retire()
            try:
                transaction.commit()
            except DBAPIError as error:
                translated = self._translate(error)
                if isinstance(error.orig, NoAnswer) or isinstance(translated, _ConnectionLost):
                    translated = DatabaseUnavailable(
                        f"{self._where}: the connection broke during the commit, its outcome is unknown: {error.orig}"
                    )
                raise translated from error
        return result, hooks

    def _translate(self, error: StatementError, seconds: float | None = None) -> Exception:
        """`seconds` is the limit of a statement, if it is not the usual one."""
        if isinstance(error, UnicodeDecodeError):
            return error
        state = getattr(error.orig, "sqlstate", None) or ""
        if isinstance(error.orig, NoAnswer):
            return DatabaseUnavailable(f"{self._where}: {error.orig}")
        if state == _TOO_SLOW:
            limit = seconds or self._deadline_seconds
            return DatabaseUnavailable(f"{self._where}: a statement took more than {limit:g} s; nothing was written")
        if state in (*_SERIALIZATION, _IDLE):  # an idle transaction was ended before its commit arrived: run it again
            return SerializationFailure(str(error.orig))
        if state.startswith("23"):
            return Conflict(str(error.orig))
        if state == "55P03":
            return Contention(f"{self._where}: a lock was not to be had in time: {error.orig}")
        if state == "53100":
            return StorageFull(f"{self._where}: the server's disk is full; nothing was written: {error.orig}")
        if state in _DAMAGED:
            return DatabaseDamaged(f"{self._where}: {error.orig}; {_RESTORE}")
        if error.connection_invalidated or state in _NOBODY_THERE or state.startswith("08"):
            return _ConnectionLost(f"{self._where}: {error.orig}")
        if not state and isinstance(error.orig, psycopg.OperationalError):
            message = str(error.orig).strip()
            if "password authentication failed" in message or "does not exist" in message:
                return DatabaseUnavailable(f"{self._where} refused us: {message}")
            return _ConnectionLost(f"{self._where} cannot be reached: {message}")
        if state == _NOT_ALLOWED:
            return DatabaseUnavailable(f"{self._where} refused us: {error.orig}; the role must own its schema")
        if state.startswith(("22", "42")) or not state:
            return error
        return DatabaseError(f"{self._where}: {error.orig}")


def _driver(connection: Connection) -> BoundedConnection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection)
    return driver


def _now(connection: Connection) -> datetime:
    found: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return found.astimezone(UTC)
