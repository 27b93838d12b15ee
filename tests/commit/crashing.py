"""Ports that die right after the n-th change, and change nothing afterwards.

Between two changes nothing is durable but what the first one left, so dying before a change, or in a call that only
reads, is dying after the change before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Executable, Table
from sqlalchemy.engine import CursorResult

from tutti.backbone import Blobs, Database, EventLog, Isolation, NewRecord, Transaction
from tutti.backbone.blobs import Put, Stat
from tutti.backbone.migrations import History
from tutti.backbone.recording import Crashed

T = TypeVar("T")


class Points:
    """Numbers the changes; raises Crashed right after number `crash_at`, and before every later one."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.crash_at, self.labels = crash_at, list[str]()

    def before(self) -> None:
        """About to change something: not when dead."""
        if self.crash_at is not None and len(self.labels) > self.crash_at:
            raise Crashed(f"after change {self.crash_at}, {self.labels[self.crash_at]}")

    def changed(self, label: str) -> None:
        self.labels.append(label)
        self.before()

    def change(self, label: str, call: Callable[[], T]) -> T:
        self.before()
        result = call()
        self.changed(label)
        return result


class CrashingBlobs:
    """`fetch` copies past the file seam: scratch copies need no durability."""

    def __init__(self, inner: Blobs, points: Points) -> None:
        self._inner, self._points = inner, points

    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        return self._points.change(f"put {_kind(key)}", lambda: self._inner.put_if_absent(key, data))

    def get(self, key: str) -> bytes:
        return self._inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._inner.get_range(key, start, length)

    def fetch(self, key: str, to: Path) -> None:
        to.write_bytes(self.get(key))

    def stat(self, key: str) -> Stat:
        return self._inner.stat(key)

    def list(self, prefix: str) -> Iterator[Stat]:
        return self._inner.list(prefix)

    def delete(self, key: str) -> None:
        self._points.change(f"delete {_kind(key)}", lambda: self._inner.delete(key))

    def close(self) -> None:
        self._inner.close()


class CrashingDatabase:
    """A transaction that writes is a change: it is committed, and nobody was told."""

    def __init__(self, inner: Database, points: Points) -> None:
        self._inner, self._points = inner, points

    def create(self, metadata: Any, histories: Sequence[History] = ()) -> None:
        self._inner.create(metadata, histories)

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        wrote = False

        def watched(tx: Transaction) -> T:
            nonlocal wrote
            noting = _Noting(tx)
            result = fn(cast(Transaction, noting))
            wrote = noting.wrote
            if wrote:
                self._points.before()
            return result

        result = self._inner.run(watched, isolation=isolation)
        if wrote:
            self._points.changed("commit")
        return result

    def close(self) -> None:
        self._inner.close()


class _Noting:
    """Whether a transaction changed a row."""

    def __init__(self, inner: Transaction) -> None:
        self._inner, self.wrote = inner, False

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        result = self._inner.execute(statement, parameters)
        self.wrote |= not statement.is_select and result.rowcount != 0
        return result

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        self._inner.insert(table, rows)
        self.wrote |= bool(rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class CrashingLog:
    def __init__(self, inner: EventLog, points: Points) -> None:
        self._inner, self._points = inner, points

    def append(self, records: Sequence[NewRecord]) -> None:
        self._points.change("append", lambda: self._inner.append(records))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _kind(key: str) -> str:
    return "/".join(key.split("/")[:2])
