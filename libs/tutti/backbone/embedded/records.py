"""The tables of the embedded log: records, topics, offsets and generations in SQLite.

Promises: every method that writes is one durable transaction. Not thread-safe: the log's owner calls it.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from json.encoder import encode_basestring as quoted

from tutti.backbone.eventlog import EventLogError, Kind, NewRecord, Record, Topic, TopicPartition

# A record's row id is (topic number, partition, offset) in one integer, so that the table is its own index.
_OFFSET_BITS = 40
_PARTITION_BITS = 12
VERSION = 1
_SCHEMA = f"""
CREATE TABLE records (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL, headers TEXT NOT NULL, timestamp_ms INTEGER NOT NULL
);
CREATE TABLE topics (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, partitions INTEGER NOT NULL,
    retention_seconds INTEGER NOT NULL
);
CREATE TABLE floors (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE offsets (
    consumers TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
    PRIMARY KEY (consumers, partition)
) WITHOUT ROWID;
CREATE TABLE generations (consumers TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
"""

Row = tuple[str, bytes, str, int]


def encode(record: NewRecord, timestamp_ms: int) -> Row:
    """The columns of a record; headers as json.dumps writes them, which would build an encoder for each."""
    headers = ",".join([_named(name) + quoted(value) for name, value in record.headers.items()])
    return record.key, record.value, "{" + headers + "}", timestamp_ms


@lru_cache(maxsize=1 << 12)
def _named(name: str) -> str:
    return quoted(name) + ":"


class Store:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.topics: dict[str, Topic] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.places: dict[str, tuple[TopicPartition, ...]] = {}
        self._numbers: dict[str, int] = {}
        try:
            self._open()
        except BaseException:
            connection.close()
            raise

    def ensure(self, topics: Sequence[Topic]) -> None:
        with self._transaction():
            for topic in topics:
                self._connection.execute(
                    "INSERT INTO topics (name, kind, partitions, retention_seconds) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (name) DO UPDATE SET retention_seconds = excluded.retention_seconds",
                    (topic.name, topic.kind.value, topic.partitions, topic.retention_seconds),
                )
        self._load_topics()

    def append(self, rows: Sequence[tuple[TopicPartition, Row]]) -> dict[TopicPartition, int]:
        """Append in order; the new ends of the partitions, for the caller to publish in `ends`."""
        numbers: dict[TopicPartition, int] = {}
        values = []
        for at, row in rows:
            number = numbers.get(at)
            if number is None:
                number = self._base(at) + self.ends[at]
            numbers[at] = number + 1
            values.append((number, *row))
        with self._transaction():
            self._connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", values)
        return {at: number - self._base(at) for at, number in numbers.items()}

    def read(self, at: TopicPartition, offset: int, limit: int) -> list[Record]:
        base = self._base(at)
        rows = self._connection.execute(
            "SELECT id, key, value, headers, timestamp_ms FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (base + max(offset, 0), base + self.ends[at], limit),
        ).fetchall()
        headers = json.loads(f"[{','.join([row[3] for row in rows])}]")  # at once: half the time of one by one
        return [
            Record(at.topic, at.partition, number - base, key, value, parsed, timestamp_ms)
            for (number, key, value, _, timestamp_ms), parsed in zip(rows, headers, strict=True)
        ]

    def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)",
                [(group, self._partition(at), offset) for at, offset in positions.items()],
            )

    def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        first = self._partition(TopicPartition(topic, 0))
        rows = self._connection.execute(
            "SELECT partition - ?, next_offset FROM offsets WHERE consumers = ? AND partition >= ? AND partition < ?",
            (first, group, first, first + self.topics[topic].partitions),
        )
        return {TopicPartition(topic, partition): offset for partition, offset in rows}

    def generation(self, group: str) -> int:
        row = self._connection.execute("SELECT generation FROM generations WHERE consumers = ?", (group,)).fetchone()
        return row[0] if row else 0

    def set_generation(self, group: str, generation: int) -> None:
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO generations VALUES (?, ?)", (group, generation))

    def compact(self, at: TopicPartition, now_ms: int) -> None:
        topic, first, past = self.topics[at.topic], self._base(at), self._base(at) + self.ends[at]
        with self._transaction():
            if topic.kind is Kind.STATE:
                self._connection.execute(
                    "DELETE FROM records WHERE id >= ? AND id < ? AND id NOT IN "
                    "(SELECT max(id) FROM records WHERE id >= ? AND id < ? GROUP BY key)",
                    (first, past, first, past),
                )
            else:
                self._expire(at, first, past, now_ms - topic.retention_seconds * 1000)

    def close(self) -> None:
        self._connection.close()

    def _expire(self, at: TopicPartition, first: int, past: int, cutoff_ms: int) -> None:
        """Remove the records before the first one that is young enough; the end stays where it is."""
        (young,) = self._connection.execute(
            "SELECT min(id) FROM records WHERE id >= ? AND id < ? AND timestamp_ms >= ?", (first, past, cutoff_ms)
        ).fetchone()
        if young is None:
            self._connection.execute("INSERT OR REPLACE INTO floors VALUES (?, ?)", (self._partition(at), past - first))
        self._connection.execute(
            "DELETE FROM records WHERE id >= ? AND id < ?", (first, past if young is None else young)
        )

    def _open(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise EventLogError(
                f"the event log has format {version}, this program reads up to {VERSION}: use a newer tutti"
            )
        if version == 0:
            self._connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        self._load_topics()

    def _load_topics(self) -> None:
        rows = self._connection.execute("SELECT number, name, kind, partitions, retention_seconds FROM topics")
        for number, name, kind, partitions, retention in rows.fetchall():
            self.topics[name] = Topic(name, Kind(kind), partitions, retention)
            self._numbers[name] = number
            self.places[name] = tuple(TopicPartition(name, partition) for partition in range(partitions))
            for at in self.places[name]:
                if at not in self.ends:
                    self.ends[at] = self._find_end(at)

    def _find_end(self, at: TopicPartition) -> int:
        base = self._base(at)
        (last,) = self._connection.execute(
            "SELECT max(id) FROM records WHERE id >= ? AND id < ?", (base, base + (1 << _OFFSET_BITS))
        ).fetchone()
        floor = self._connection.execute(
            "SELECT next_offset FROM floors WHERE partition = ?", (self._partition(at),)
        ).fetchone()
        return max(0 if last is None else last - base + 1, floor[0] if floor else 0)

    def _partition(self, at: TopicPartition) -> int:
        return self._numbers[at.topic] << _PARTITION_BITS | at.partition

    def _base(self, at: TopicPartition) -> int:
        return self._partition(at) << _OFFSET_BITS

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
