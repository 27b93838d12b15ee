"""One member of a consumer group on Kafka.

Promises: the assignment callbacks run in the thread that polls, before any record of the new assignment is returned;
what was polled under an older generation is never committed.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import kafka
from kafka import errors
from kafka.structs import OffsetAndMetadata

from tutti.backbone.eventlog import EventLogError, LogUnavailable, Partitions, Record, StaleGeneration, TopicPartition

LEAVE_MILLISECONDS = 2000  # a group that cannot be left in this time finds out by the session's timeout
_STALE = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
    errors.RebalanceInProgressError,
    errors.FencedInstanceIdError,
)


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes what changed; the client may call it on a thread of its own."""

    def __init__(self) -> None:
        self.changes: deque[tuple[bool, tuple[TopicPartition, ...]]] = deque()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.changes.append((True, _ours(assigned)))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.changes.append((False, _ours(revoked)))

    def on_partitions_lost(self, lost: Any) -> None:
        self.changes.append((False, _ours(lost)))


class KafkaSubscription:
    def __init__(
        self,
        consumer: Any,
        group: str,
        topics: Sequence[str],
        on_assigned: Callable[[Partitions], None] | None,
        on_revoked: Callable[[Partitions], None] | None,
        asked: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._consumer, self._group, self._asked = consumer, group, asked
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._listener = _Listener()
        self._generation = 0
        self._closed = False
        consumer.subscribe(topics=list(topics), listener=self._listener)

    @property
    def generation(self) -> int:
        return self._generation

    def poll(self, timeout_seconds: float, max_records: int = 500) -> list[Record]:
        if self._closed:
            raise LogUnavailable(f"this member of group {self._group} was closed; subscribe again")
        with self._asked("poll"):
            polled = self._consumer.poll(timeout_ms=int(timeout_seconds * 1000), max_records=max_records)
        self._finish_joining()
        current = self._consumer.group_metadata().generation_id
        if current > 0:
            self._generation = current
        while self._listener.changes:
            assigned, partitions = self._listener.changes.popleft()
            callback = self._on_assigned if assigned else self._on_revoked
            if callback is not None and (assigned or partitions):
                callback(partitions)
        return [as_record(record) for records in polled.values() for record in records]

    def _finish_joining(self) -> None:
        """Let the next poll go on with a join that this one had no time to finish.

        When a join was begun because the metadata of a topic had changed, the client forgets it as soon as it has
        computed the new assignment: nothing would be assigned, and no heartbeat sent, ever again.
        """
        coordinator = self._consumer._coordinator
        if coordinator is not None and coordinator.rejoining:
            coordinator.request_rejoin()

    def commit(self, positions: Mapping[TopicPartition, int], generation: int) -> None:
        if any(offset < 0 for offset in positions.values()):
            raise EventLogError(f"group {self._group}: an offset is negative: {dict(positions)}")
        current = self._consumer.group_metadata().generation_id
        if generation != current:
            raise StaleGeneration(
                f"group {self._group}: commit under generation {generation}, it is at {current}; "
                f"poll to learn what is yours now"
            )
        if strange := set(positions) - set(_ours(self._consumer.assignment())):
            raise StaleGeneration(f"group {self._group}: {sorted(strange)} belong to others now")
        try:
            with self._asked("commit"):
                self._consumer.commit(
                    {
                        kafka.TopicPartition(at.topic, at.partition): OffsetAndMetadata(offset, "", -1)
                        for at, offset in positions.items()
                    }
                )
        except LogUnavailable as error:
            if isinstance(error.__cause__, _STALE):
                raise StaleGeneration(f"group {self._group} has moved on: {error.__cause__}") from error.__cause__
            raise

    def seek(self, at: TopicPartition, offset: int) -> None:
        where = kafka.TopicPartition(at.topic, at.partition)
        if where not in self._consumer.assignment():
            raise EventLogError(f"group {self._group}: {at.topic}/{at.partition} is not assigned to this member")
        self._consumer.seek(where, offset)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close(autocommit=False, timeout_ms=LEAVE_MILLISECONDS)


def as_record(record: Any) -> Record:
    return Record(
        record.topic,
        record.partition,
        record.offset,
        _text(record.key),
        record.value or b"",
        {name: _text(value) for name, value in record.headers},
        record.timestamp,
    )


def _text(data: bytes | None) -> str:
    """Return a key or the value of a header: any bytes, or none at all, if another program wrote the record."""
    return (data or b"").decode(errors="backslashreplace")


def _ours(partitions: Any) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(at.topic, at.partition) for at in partitions))
