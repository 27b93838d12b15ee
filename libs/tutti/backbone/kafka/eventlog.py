"""The event log on Kafka.

Promises: as the port; a record is acknowledged when all in-sync replicas have it; the idempotent producer keeps the
order of each partition; a broker that is away is waited for until the deadline, then LogUnavailable.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import kafka
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from tutti.backbone.embedded.partitioner import partition_of
from tutti.backbone.eventlog import (
    BadRecord,
    EventLogError,
    Kind,
    LogRefused,
    LogUnavailable,
    NewRecord,
    Partitions,
    Record,
    Topic,
    TopicMismatch,
    TopicPartition,
    UnknownTopic,
    check_record,
    check_topic,
)
from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.subscription import KafkaSubscription, as_record

# The client forgets that it wanted a topic when an older request for metadata is still on its way, and then looks again
# only after this time; its default of five minutes would be a group without partitions for as long.
METADATA_MILLISECONDS = 3000
BATCH_BYTES, LINGER_MILLISECONDS = 512 << 10, 100
"""A broker syncs once a batch. One waits until it is full, or until all records of an append are in batches."""
LOOK_SECONDS = 0.05
CLOSE_SECONDS = 1.0  # every append has been answered, so nothing is on its way
_AWAY = (errors.KafkaTimeoutError, errors.KafkaConnectionError)
_DISK = (errors.KafkaStorageError,)
_NO_LEADER = (errors.UnknownBrokerIdError, errors.NodeNotReadyError)
"""A partition has no leader now, or no broker is connected since the last one went away."""
_POLICY = {Kind.STATE: "compact", Kind.FACT: "delete"}


class KafkaEventLog:
    """`deadline_seconds` bounds every request; the client library takes 10 s to reconnect to a broker that hangs."""

    def __init__(
        self,
        brokers: Brokers,
        *,
        deadline_seconds: float = 30,
        session_seconds: float = 10,
        max_poll_seconds: float = 300,
    ) -> None:
        self._brokers, self._where = brokers, str(brokers)
        self._deadline = deadline_seconds
        milliseconds = int(deadline_seconds * 1000)
        self._common: dict[str, Any] = {
            **brokers.settings(),
            "client_id": "tutti",
            "request_timeout_ms": milliseconds,
            "bootstrap_timeout_ms": milliseconds,
            "reconnect_backoff_max_ms": 1000,
            "metadata_max_age_ms": METADATA_MILLISECONDS,
        }
        self._quiet = {"metrics_enabled": False}
        self._membership: dict[str, Any] = {
            "session_timeout_ms": int(session_seconds * 1000),
            "heartbeat_interval_ms": int(session_seconds * 1000 / 4),
            "max_poll_interval_ms": int(max_poll_seconds * 1000),
        }
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._closed = False
        self._clients: dict[str, Any] = {}
        self._partitions: dict[str, int] = {}

    def ensure(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            check_topic(topic)
        with self._asked("ensure topics"):
            admin = self._the_admin()
            for topic in topics:
                if self._find(admin, topic.name) is None:
                    self._create(admin, topic)
                self._check_shape(admin, topic)

    def append(self, records: Sequence[NewRecord]) -> None:
        placed = []
        for record in records:
            check_record(record)
            placed.append((record, partition_of(record.key, self._count(record.topic))))
        if not placed:
            return
        producer = self._the_producer()
        try:
            with self._asked("append"):
                sent = [
                    producer.send(
                        record.topic,
                        record.value,
                        record.key.encode(),
                        [(name, value.encode()) for name, value in record.headers.items()],
                        partition,
                    )
                    for record, partition in placed
                ]
                producer.flush(timeout=self._deadline + 1)
                for future in sent:
                    future.get(timeout=self._deadline + 1)
        except LogUnavailable:
            self._drop_producer(producer)  # its sequence numbers are in doubt
            raise

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        on_assigned: Callable[[Partitions], None] | None = None,
        on_revoked: Callable[[Partitions], None] | None = None,
    ) -> KafkaSubscription:
        for topic in topics:
            self._count(topic)
        with self._asked(f"join group {group}"):
            self._check_password()
            consumer = kafka.KafkaConsumer(
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                partition_assignment_strategy=[kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor],
                **self._common,
                **self._quiet,
                **self._membership,
            )
            return KafkaSubscription(consumer, group, topics, on_assigned, on_revoked, self._asked)

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        found = self._offsets(topic, OffsetSpec.LATEST)
        return {TopicPartition(topic, partition): offset for partition, offset in found.items()}

    def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        count = self._count(topic)
        wanted = [kafka.TopicPartition(topic, partition) for partition in range(count)]
        with self._asked(f"read the offsets of group {group}"):
            found = self._the_admin().list_group_offsets({group: wanted})
        return {
            TopicPartition(topic, at.partition): position.offset
            for at, position in found.get(group, {}).items()
            if position.offset >= 0
        }

    def read(self, at: TopicPartition, offset: int, max_records: int = 500) -> list[Record]:
        count = self._count(at.topic)
        if not 0 <= at.partition < count:
            raise EventLogError(f"{at.topic} has partitions 0 to {count - 1}, not {at.partition}")
        end = self._offsets(at.topic, OffsetSpec.LATEST)[at.partition]
        start = max(offset, self._offsets(at.topic, OffsetSpec.EARLIEST)[at.partition])
        if start >= end:
            return []
        where = kafka.TopicPartition(at.topic, at.partition)
        found: list[Record] = []
        with self._reading, self._asked("read"):
            reader = self._the_reader()
            reader.assign([where])
            reader.seek(where, start)
            while len(found) < max_records and reader.position(where) < end:
                polled = reader.poll(timeout_ms=int(self._deadline * 1000), max_records=max_records - len(found))
                records = [as_record(record) for record in polled.get(where, [])]
                found += [record for record in records if record.offset < end]
                if not records and reader.position(where) < end:
                    raise LogUnavailable(f"{self._where} did not answer a read of {at.topic}/{at.partition} in time")
        return found

    def compact(self) -> None:
        """The broker does this itself."""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            _close(client, CLOSE_SECONDS)

    def _count(self, topic: str) -> int:
        found = self._partitions.get(topic)
        if found is None:
            with self._asked(f"look up {topic}"):
                found = self._find(self._the_admin(), topic)
            if found is None:
                raise UnknownTopic(f"{topic} was never ensured on {self._where}")
            self._partitions[topic] = found
        return found

    def _find(self, admin: Any, topic: str) -> int | None:
        """The number of partitions of a topic, None when there is no such topic."""
        (found,) = admin.describe_topics([topic])
        error = errors.for_code(found["error_code"])
        if error is errors.UnknownTopicOrPartitionError:
            return None
        if error is not errors.NoError:
            raise error(f"topic {topic}")
        return len(found["partitions"])

    def _create(self, admin: Any, topic: Topic) -> None:
        configs = {"cleanup.policy": _POLICY[topic.kind], "retention.ms": str(topic.retention_seconds * 1000)}
        with suppress(errors.TopicAlreadyExistsError):  # another process was faster; its shape is checked as any other
            admin.create_topics({topic.name: {"num_partitions": topic.partitions, "configs": configs}})
        admin.wait_for_topics([topic.name], timeout_ms=int(self._deadline * 1000))

    def _check_shape(self, admin: Any, topic: Topic) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, ["cleanup.policy", "retention.ms"])
        deadline = time.monotonic() + self._deadline
        while True:  # a topic is made by one broker, and known to the others a moment later
            count = self._find(admin, topic.name)
            found = admin.describe_configs([resource], config_filter="all")["topic"].get(topic.name, {})
            if count is not None and "cleanup.policy" in found:
                break
            if time.monotonic() > deadline:
                raise errors.KafkaTimeoutError(f"topic {topic.name} was made, and is not known to every broker")
            time.sleep(LOOK_SECONDS)
        policy, retention = found["cleanup.policy"]["value"], found["retention.ms"]["value"]
        if (count, policy) != (topic.partitions, _POLICY[topic.kind]):
            raise TopicMismatch(
                f"{topic.name} exists with cleanup.policy={policy} and {count} partitions, expected "
                f"{_POLICY[topic.kind]} with {topic.partitions}: another shape is a new topic"
            )
        if int(retention) != topic.retention_seconds * 1000:
            wanted = {"retention.ms": str(topic.retention_seconds * 1000)}
            with suppress(errors.TopicAuthorizationFailedError):  # the owner of the topic keeps its retention
                admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name, wanted)])
        self._partitions[topic.name] = topic.partitions

    def _offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        wanted = {kafka.TopicPartition(topic, partition): spec for partition in range(self._count(topic))}
        deadline = time.monotonic() + self._deadline
        with self._asked(f"read the offsets of {topic}"):
            while True:
                try:
                    found = self._the_admin().list_partition_offsets(wanted, timeout_ms=int(self._deadline * 1000))
                    break
                except _NO_LEADER:  # and the client does not wait
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(LOOK_SECONDS)
        return {at.partition: position.offset for at, position in found.items()}

    def _the_producer(self) -> Any:
        with self._asked("connect"):
            return self._client(
                "producer",
                lambda: kafka.KafkaProducer(
                    acks="all",
                    enable_idempotence=True,
                    allow_auto_create_topics=False,
                    batch_size=BATCH_BYTES,
                    linger_ms=LINGER_MILLISECONDS,
                    delivery_timeout_ms=int(self._deadline * 1000) + LINGER_MILLISECONDS,
                    max_block_ms=int(self._deadline * 1000),
                    **self._common,
                    **self._quiet,
                ),
            )

    def _drop_producer(self, producer: Any) -> None:
        with self._lock:
            if self._clients.get("producer") is producer:
                del self._clients["producer"]
        _close(producer, 0)

    def _the_admin(self) -> Any:
        return self._client("admin", lambda: kafka.KafkaAdminClient(**self._common))

    def _the_reader(self) -> Any:
        return self._client(
            "reader",
            lambda: kafka.KafkaConsumer(
                group_id=None,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                **self._common,
                **self._quiet,
            ),
        )

    def _client(self, name: str, connect: Callable[[], Any]) -> Any:
        """Return the client of this name. It connects outside of the lock: each caller waits for its own deadline."""
        with self._lock:
            self._check_open()
            if (known := self._clients.get(name)) is not None:
                return known
        self._check_password()
        made = connect()
        with self._lock:
            known = None if self._closed else self._clients.setdefault(name, made)
        if known is not made:
            _close(made, 0)
            self._check_open()
        return known

    def _check_password(self) -> None:
        """Before a client connects, which would try a wrong password again until its deadline. Raises LogRefused."""
        if reason := self._brokers.refusal(self._deadline / 4):
            raise LogRefused(
                f"{self._where} refused the user {self._brokers.user}: {reason}; check user and password in log.url"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable(f"the log on {self._where} is closed")

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Turn the client's errors into the port's."""
        try:
            yield
        except errors.UnknownTopicOrPartitionError as error:
            raise UnknownTopic(f"{self._where}: cannot {what}: {error}") from error
        except (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError) as error:
            raise BadRecord(f"{self._where} refused to {what}: {error}") from error
        except errors.AuthorizationError as error:
            raise LogRefused(
                f"{self._where}: the user {self._brokers.user or 'ANONYMOUS'} may not {what}: {type(error).__name__}: "
                f"{error}"
            ) from error
        except errors.KafkaError as error:
            if isinstance(error, _AWAY):
                self._check_password()
            advice = "; is the broker up, and is there room on its disk?" if isinstance(error, (*_AWAY, *_DISK)) else ""
            raise LogUnavailable(
                f"{self._where}: cannot {what} within {self._deadline:g} s: {type(error).__name__}: {error}{advice}"
            ) from error


def _close(client: Any, seconds: float) -> None:
    """Give up what a producer has still on its way after so long."""
    if not isinstance(client, kafka.KafkaProducer):
        client.close()
        return
    try:
        client.close(timeout=seconds)
    except errors.KafkaTimeoutError:  # it raises before it has ended its thread
        client._sender.force_close()
