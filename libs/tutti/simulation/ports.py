"""Ports as a simulated process sees them: the embedded adapters, with faults.

Promises: never kinder than a server; an answer is lost before or after the effect; what is delivered stays in order
within a partition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Executable, MetaData, Table
from sqlalchemy.engine import CursorResult

from tutti.backbone import Blobs, Isolation, NewRecord, Record, Topic, TopicPartition, Transaction
from tutti.backbone.blobs import BlobsUnavailable, Put, Stat
from tutti.backbone.database import DatabaseUnavailable
from tutti.backbone.eventlog import LogUnavailable, Partitions, Subscription
from tutti.backbone.migrations import History
from tutti.simulation.faults import Fault
from tutti.simulation.world import Process, World

T = TypeVar("T")
P = ParamSpec("P")
REWIND = 5


class _Answerless:
    """A transaction whose hooks are forgotten when its answer is lost."""

    def __init__(self, tx: Transaction, *, answered: bool) -> None:
        self._tx, self._answered = tx, answered

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        return self._tx.execute(statement, parameters)

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        self._tx.insert(table, rows)

    def savepoint(self, fn: Callable[[], T]) -> T:
        return self._tx.savepoint(fn)

    def on_commit(self, hook: Callable[[], None]) -> None:
        if self._answered:
            self._tx.on_commit(hook)

    def now(self) -> datetime:
        return self._tx.now()

    @property
    def skip_locked(self) -> bool:
        return self._tx.skip_locked


class SimulatedDatabase:
    def __init__(self, world: World, process: Process, service: str) -> None:
        self._world, self._process, self._service = world, process, service
        self._inner = world.database(service)

    def create(self, metadata: MetaData, histories: Sequence[History] = ()) -> None:
        del histories  # every world begins with an empty database
        if self._service not in self._world.created:  # the next life has the same tables
            self._inner.create(metadata)
            self._world.created.add(self._service)

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        world, fate = self._world, self._world.fate
        world.enter(self._process, "the database")
        if fate.strikes(Fault.DATABASE_UNAVAILABLE):
            raise DatabaseUnavailable("injected: connection refused")
        answered = not fate.strikes(Fault.COMMIT_UNANSWERED)
        world.transactions += 1
        try:
            result = self._inner.run(lambda tx: fn(_Answerless(tx, answered=answered)), isolation=isolation)
        finally:
            world.transactions -= 1
        if not answered:
            raise DatabaseUnavailable("injected: the connection was lost after the commit")
        world.perhaps_crash(self._process)
        return result

    def close(self) -> None:
        return None


class SimulatedLog:
    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process, self._inner = world, process, world.log

    def ensure(self, topics: Sequence[Topic]) -> None:
        self._inner.ensure(topics)

    def append(self, records: Sequence[NewRecord]) -> None:
        self._reach()
        self._inner.append(records)
        self._world.appended({record.topic for record in records})
        if self._world.fate.strikes(Fault.APPEND_UNANSWERED):
            raise LogUnavailable("injected: appended, the answer was lost")
        self._world.perhaps_crash(self._process)

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        on_assigned: Callable[[Partitions], None] | None = None,
        on_revoked: Callable[[Partitions], None] | None = None,
    ) -> "SimulatedSubscription":
        self._reach()
        return SimulatedSubscription(
            self._world, self._process, group, self._inner.subscribe(group, topics, on_assigned, on_revoked)
        )

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        return self._inner.end_offsets(topic)

    def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        return self._inner.committed(group, topic)

    def read(self, at: TopicPartition, offset: int, max_records: int = 500) -> list[Record]:
        return self._inner.read(at, offset, max_records)

    def compact(self) -> None:
        self._inner.compact()

    def close(self) -> None:
        return None

    def _reach(self) -> None:
        self._world.enter(self._process, "the event log")
        if self._world.fate.strikes(Fault.LOG_UNAVAILABLE):
            raise LogUnavailable("injected: the broker does not answer")


class SimulatedSubscription:
    def __init__(self, world: World, process: Process, group: str, inner: Subscription) -> None:
        self._world, self._process, self._group, self._inner = world, process, group, inner
        self._read: dict[TopicPartition, int] = {}

    @property
    def generation(self) -> int:
        return self._inner.generation

    def poll(self, timeout_seconds: float, max_records: int = 500) -> list[Record]:
        fate = self._world.fate
        self._world.enter(self._process, "the event log")
        if fate.strikes(Fault.LOG_UNAVAILABLE):
            raise LogUnavailable("injected: the broker does not answer")
        if fate.strikes(Fault.REBALANCED):
            self._world.log.rebalance(self._group)
        generation = self._inner.generation
        records = self._inner.poll(timeout_seconds, max_records)
        if generation != self._inner.generation:
            self._read.clear()
        by_partition: dict[TopicPartition, list[Record]] = {}
        for record in records:
            by_partition.setdefault(record.at, []).append(record)
        kept: list[list[Record]] = []
        for at, some in by_partition.items():
            if fate.strikes(Fault.DELAYED):
                cut = fate.count(0, len(some) - 1)
                self._inner.seek(at, some[cut].offset)
                some = some[:cut]
            if some:
                self._read[at] = some[-1].offset + 1
                kept.append(some)
        self._perhaps_rewind()
        return self._shuffled(kept)

    def commit(self, positions: Mapping[TopicPartition, int], generation: int) -> None:
        self._world.enter(self._process, "the event log")
        self._inner.commit(positions, generation)

    def seek(self, at: TopicPartition, offset: int) -> None:
        self._inner.seek(at, offset)

    def close(self) -> None:
        self._inner.close()

    def _perhaps_rewind(self) -> None:
        """Deliver what was delivered before once more, at the next poll."""
        if self._read and self._world.fate.strikes(Fault.DUPLICATED):
            at = self._world.fate.choose(sorted(self._read))
            self._inner.seek(at, max(0, self._read[at] - self._world.fate.count(1, REWIND)))

    def _shuffled(self, queues: list[list[Record]]) -> list[Record]:
        """One list, in order within each partition."""
        mixed: list[Record] = []
        while queues:
            queue = self._world.fate.choose(queues)
            mixed.append(queue.pop(0))
            if not queue:
                queues.remove(queue)
        return mixed


class SimulatedBlobs:
    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self._inner: Blobs = world.blobs

    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        self._reach()
        put = self._inner.put_if_absent(key, data)
        if self._world.fate.strikes(Fault.PUT_UNANSWERED):
            raise BlobsUnavailable("injected: stored, the answer was lost")
        self._world.perhaps_crash(self._process)
        return put

    def get(self, key: str) -> bytes:
        self._reach()
        return self._inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._reach()
        return self._inner.get_range(key, start, length)

    def fetch(self, key: str, to: Path) -> None:
        self._reach()
        self._inner.fetch(key, to)

    def stat(self, key: str) -> Stat:
        self._reach()
        return self._inner.stat(key)

    def list(self, prefix: str) -> Iterator[Stat]:
        self._reach()
        return self._inner.list(prefix)

    def delete(self, key: str) -> None:
        self._reach()
        self._inner.delete(key)

    def close(self) -> None:
        return None

    def _reach(self) -> None:
        self._world.enter(self._process, "the blob store")
        if self._world.fate.strikes(Fault.BLOBS_UNAVAILABLE):
            raise BlobsUnavailable("injected: the store does not answer")


class InlinePool:
    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._world.enter(self._process, "the pool")
        result = fn(*args, **kwargs)
        self._world.perhaps_stall(self._process, Fault.WORKER_STALLED)
        self._world.enter(self._process, "the pool")
        return result
