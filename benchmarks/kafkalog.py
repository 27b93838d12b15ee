"""The event log on Kafka through its port beside bare kafka-python.

Both send the same records in the same batches with acks=all and the idempotent producer, to a broker that syncs every
record. The port takes and gives keys and headers as text; the peer's are encoded beforehand and stay bytes when they
are read, so that this work counts against us.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.eventlog import TOPIC, batch
from benchmarks.pairs import alternate, timed
from benchmarks.program import NotHere, main, scratch
from benchmarks.realservers import real_servers
from benchmarks.table import Row, ratio_at_least
from tutti.backbone import EventLog
from tutti.backbone.connect import open_log

GOAL = ratio_at_least(0.8)
SIZE = 200
POLL = 500
TURN = 500
"""Records of one turn of reading, at least."""


def cost_of_reading(poll: Callable[[], int]) -> float:
    """Seconds a record, over one turn."""
    started, count = time.perf_counter(), 0
    while count < TURN:
        found = poll()
        if not found:
            raise NotHere("the broker had no more records to read; look at its log")
        count += found
    return (time.perf_counter() - started) / count


class BareKafka:
    """What one would write with kafka-python alone."""

    def __init__(self, url: str) -> None:
        import kafka as library

        from tutti.backbone.kafka.brokers import Brokers

        where: dict[str, Any] = {**Brokers.parse(url).settings(), "metrics_enabled": False}
        self._producer = library.KafkaProducer(acks="all", enable_idempotence=True, **where)
        self._consumer = library.KafkaConsumer(
            TOPIC.name, group_id="bare", enable_auto_commit=False, auto_offset_reset="earliest", **where
        )

    def append(self, records: Sequence[tuple[bytes, bytes, list[tuple[str, bytes]]]]) -> None:
        """Send all, wait for all."""
        sent = [self._producer.send(TOPIC.name, value, key, headers) for key, value, headers in records]
        for future in sent:
            future.get(timeout=30)

    def poll(self) -> int:
        """How many records came."""
        return sum(map(len, self._consumer.poll(timeout_ms=10_000, max_records=POLL).values()))

    def close(self) -> None:
        """Close both clients."""
        self._consumer.close()
        self._producer.close()


def measure(quick: bool) -> list[Row]:
    """Appending and polling; where there is no broker to be had, a row says so."""
    try:
        with scratch("kafka") as folder, real_servers(Path(folder), "kafka") as urls:
            url = urls["kafka"]
            log = open_log(url)
            log.ensure([TOPIC])
            bare, pairs = BareKafka(url), 25 if quick else 120
            try:
                return [_appended(log, bare, pairs), _polled(log, bare, 2 * SIZE * pairs // POLL - 2)]
            finally:
                bare.close()
                log.close()
    except NotHere as error:
        return [Row("Kafka through the port", note=f"skipped: {error}", goal=GOAL)]


def _appended(log: EventLog, bare: BareKafka, pairs: int) -> Row:
    records = batch(SIZE)
    prepared = [
        (each.key.encode(), each.value, [(name, value.encode()) for name, value in each.headers.items()])
        for each in records
    ]
    found = alternate(timed(lambda: log.append(records)), timed(lambda: bare.append(prepared)), pairs=pairs, warmups=5)
    return Row.of_speed(
        what=f"Kafka append, batches of {SIZE}",
        unit="records/s",
        amount=SIZE,
        pairs=found,
        goal=GOAL,
        note="peer: kafka-python with the same acks and idempotence, its records encoded beforehand",
    )


def _polled(log: EventLog, bare: BareKafka, pairs: int) -> Row:
    subscription = log.subscribe("ours", [TOPIC.name])
    found = alternate(
        lambda: cost_of_reading(lambda: len(subscription.poll(10.0, POLL))),
        lambda: cost_of_reading(bare.poll),
        pairs=pairs,
        warmups=1,
    )
    subscription.close()
    return Row.of_speed(
        what=f"Kafka poll, {POLL} at once",
        unit="records/s",
        amount=1,
        pairs=found,
        goal=GOAL,
        note="a group of its own each; the peer takes ConsumerRecords as they come",
    )


if __name__ == "__main__":
    main("kafkalog", __doc__, measure)
