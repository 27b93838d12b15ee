"""The event log: partitioned, ordered within a partition, read by groups, at least once.

Promises: `append` returns only when every record is durable; offsets grow within a partition but may have gaps;
a commit under a stale generation is refused; a topic is compacted (newest record of a key survives) or expires by age.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol


class Kind(Enum):
    """The retention of a topic: STATE keeps the newest record of each key, FACT every record until it expires."""

    STATE = "state"
    FACT = "fact"


class TopicPartition(NamedTuple):
    """Records come by the hundred: a named tuple is made, compared and hashed without running Python."""

    topic: str
    partition: int


@dataclass(frozen=True)
class Topic:
    """A topic of the catalogue; `partitions` is part of its identity: another number is a new topic."""

    name: str
    kind: Kind
    partitions: int = 12
    retention_seconds: int = 14 * 24 * 3600


class NewRecord(NamedTuple):
    """A record to append; its partition is murmur2(key) as Kafka's own clients choose it. An empty key is refused."""

    topic: str
    key: str
    value: bytes
    headers: Mapping[str, str] = MappingProxyType({})


class Record(NamedTuple):
    """A record as it was read; `offset` grows within its partition, and may leave gaps."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: Mapping[str, str]
    timestamp_ms: int

    @property
    def at(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


class EventLogError(Exception):
    """Any failure of the event log."""


class LogUnavailable(EventLogError):
    """The log cannot be reached or did not answer in time; the outcome of an append is unknown, so append again."""


class LogRefused(LogUnavailable):
    """The log does not accept our credentials, or not for this."""


class UnknownTopic(EventLogError):
    """The topic was never ensured."""


class TopicMismatch(EventLogError):
    """The topic exists with another kind or another number of partitions."""


class StaleGeneration(EventLogError):
    """The member was replaced: its partitions belong to others now, its commit was refused."""


class BadRecord(EventLogError):
    """The record cannot be appended: empty key, or larger than the log accepts."""


Partitions = Sequence[TopicPartition]
MAX_RECORD_BYTES = 1_000_000
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def check_record(record: NewRecord) -> None:
    """Raise BadRecord unless every adapter accepts the record."""
    if not record.key:
        raise BadRecord(f"a record for {record.topic} has an empty key: its key is the name of its resource")
    words = "".join([record.key, *record.headers, *record.headers.values()])
    if len(record.value) + 4 * len(words) <= MAX_RECORD_BYTES:
        return
    size = len(record.value) + len(record.key.encode())
    size += sum(len(name.encode()) + len(value.encode()) for name, value in record.headers.items())
    if size > MAX_RECORD_BYTES:
        raise BadRecord(
            f"the record {record.key!r} for {record.topic} has {size} bytes, at most {MAX_RECORD_BYTES} are accepted: "
            f"send data by blob"
        )


def check_topic(topic: Topic) -> None:
    """Raise EventLogError unless every adapter accepts the topic."""
    if not _TOPIC_NAME.fullmatch(topic.name) or topic.name in (".", ".."):
        raise EventLogError(f"{topic.name!r} is not a topic name: letters, digits and ._- up to 200 characters")
    if not 1 <= topic.partitions <= 4096:
        raise EventLogError(f"{topic.name} has {topic.partitions} partitions: between 1 and 4096 are accepted")


class Subscription(Protocol):
    """One member of a consumer group. Used by one thread."""

    @property
    def generation(self) -> int:
        """Grows with every rebalance of the group."""
        ...

    def poll(self, timeout_seconds: float, max_records: int = 500) -> list[Record]:
        """Records in order within each partition; empty when none came in time. Runs the assignment callbacks."""
        ...

    def commit(self, positions: Mapping[TopicPartition, int], generation: int) -> None:
        """Set the next offset to read of each partition (cumulative).

        `generation` is the one under which the records were polled. Raises StaleGeneration when the group has moved
        on, or when a partition is not this member's. Not to be called from the assignment callbacks.
        """
        ...

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Read from `offset` next. Raises EventLogError when the partition is not this member's."""
        ...

    def close(self) -> None:
        """Leave the group; idempotent."""
        ...


class EventLog(Protocol):
    def ensure(self, topics: Sequence[Topic]) -> None:
        """Create what is missing. Raises TopicMismatch where a topic exists otherwise."""
        ...

    def append(self, records: Sequence[NewRecord]) -> None:
        """Append all in the given order (per partition); durable on return.

        Raises BadRecord, UnknownTopic (nothing was appended), LogUnavailable (some may have been).
        """
        ...

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        on_assigned: Callable[[Partitions], None] | None = None,
        on_revoked: Callable[[Partitions], None] | None = None,
    ) -> Subscription:
        """Join a group; a new group starts at the beginning of each partition."""
        ...

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get at least."""
        ...

    def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        """The committed next offset of each partition of a group (absent: never committed)."""
        ...

    def read(self, at: TopicPartition, offset: int, max_records: int = 500) -> list[Record]:
        """Records from an offset on, outside any group; what compaction or age removed is skipped."""
        ...

    def compact(self) -> None:
        """Remove now what retention allows (a hint where the broker does this itself)."""
        ...

    def close(self) -> None: ...
