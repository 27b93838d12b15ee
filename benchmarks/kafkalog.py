"""The event log on Kafka through its port beside bare kafka-python.

Both send the same records in the same batches with acks=all and the idempotent producer, to a broker that syncs every
record. A caller of the port reads keys and headers as text: a peer that does the same work decodes them, and the goal
is beside that one. Beside ConsumerRecords as they come the same is shown without a goal.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.eventlog import TOPIC, batch
from benchmarks.pairs import alternate, median, timed
from benchmarks.program import ROOT, NotHere, main, scratch
from benchmarks.table import Goal, Row, ratio_at_least
from tutti.backbone import EventLog
from tutti.backbone.connect import open_log

GOAL = ratio_at_least(0.8)
SIZE = 200
POLL = 500
TURN = 500
"""Records of one turn of reading, at least."""
SERVERS_SECONDS = 300


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """The address of a Kafka broker that lives as long as the block. Raises NotHere."""
    if shutil.which("java") is None:
        raise NotHere("Kafka needs Java 17 or newer: apt-get install openjdk-17-jre-headless maven")
    command = [sys.executable, str(ROOT / "deploy" / "local" / "servers.py")]
    where = ["kafka", "--dir", str(folder), "-o", "json"]
    up = subprocess.run([*command, "up", *where], capture_output=True, text=True, timeout=SERVERS_SECONDS, check=False)
    if up.returncode != 0:
        raise NotHere(up.stderr.strip())
    try:
        yield json.loads(up.stdout)[0]["url"].removeprefix("kafka://")
    finally:
        subprocess.run([*command, "wipe", *where], capture_output=True, timeout=SERVERS_SECONDS, check=False)


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

    def __init__(self, address: str) -> None:
        import kafka as library

        self._where: dict[str, Any] = {"bootstrap_servers": [address], "metrics_enabled": False}
        self._library = library
        self._producer = library.KafkaProducer(acks="all", enable_idempotence=True, **self._where)
        self._consumers: list[Any] = []

    def append(self, records: Sequence[tuple[bytes, bytes, list[tuple[str, bytes]]]]) -> None:
        """Send all, wait for all."""
        sent = [self._producer.send(TOPIC.name, value, key, headers) for key, value, headers in records]
        for future in sent:
            future.get(timeout=30)

    def consumer(self, group: str) -> Any:
        """A member of a new group that reads from the beginning."""
        made = self._library.KafkaConsumer(
            TOPIC.name, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest", **self._where
        )
        self._consumers.append(made)
        return made

    def close(self) -> None:
        """Close every client."""
        for client in (*self._consumers, self._producer):
            client.close()


def taken(consumer: Any) -> int:
    """Poll; how many records came."""
    return sum(map(len, consumer.poll(timeout_ms=10_000, max_records=POLL).values()))


def decoded(consumer: Any) -> int:
    """Poll, and make text of what was text; how many records came."""
    found = [
        (record.key.decode(), record.value, {name: value.decode() for name, value in record.headers})
        for records in consumer.poll(timeout_ms=10_000, max_records=POLL).values()
        for record in records
    ]
    return len(found)


def measure(quick: bool) -> list[Row]:
    """Appending and polling; where there is no broker to be had, a row says so."""
    try:
        with scratch("kafka") as folder, broker(Path(folder)) as address:
            return _measured(address, pairs=25 if quick else 120)
    except NotHere as error:
        return [Row("Kafka through the port", note=f"skipped: {error}", goal=GOAL)]


def _measured(address: str, *, pairs: int) -> list[Row]:
    log, bare = open_log(f"kafka://{address}"), BareKafka(address)
    log.ensure([TOPIC])
    try:
        rows = [_appended(log, bare, pairs=pairs)]
        polls = 2 * SIZE * pairs // POLL - 2
        rows.append(_polled(log, bare, decoded, "", "keys and headers made text by the peer too", GOAL, polls))
        rows.append(
            _polled(log, bare, taken, ", peer's left as bytes", "the peer takes them as they come", None, polls)
        )
        return rows
    finally:
        bare.close()
        log.close()


def _appended(log: EventLog, bare: BareKafka, *, pairs: int) -> Row:
    records = batch(SIZE)
    prepared = [
        (each.key.encode(), each.value, [(name, value.encode()) for name, value in each.headers.items()])
        for each in records
    ]
    found = alternate(timed(lambda: log.append(records)), timed(lambda: bare.append(prepared)), pairs=pairs, warmups=5)
    return Row(
        what=f"Kafka append, batches of {SIZE}",
        unit="records/s",
        ours=SIZE / median(found.ours),
        peer=SIZE / median(found.peer),
        ratio=found.speed(),
        goal=GOAL,
        note="peer: kafka-python with the same acks and idempotence, its records encoded beforehand",
    )


def _polled(
    log: EventLog, bare: BareKafka, read: Callable[[Any], int], which: str, how: str, goal: Goal | None, pairs: int
) -> Row:
    subscription, consumer = log.subscribe(f"ours{which}", [TOPIC.name]), bare.consumer(f"bare{which}")
    found = alternate(
        lambda: cost_of_reading(lambda: len(subscription.poll(10.0, POLL))),
        lambda: cost_of_reading(lambda: read(consumer)),
        pairs=pairs,
        warmups=1,
    )
    subscription.close()
    return Row(
        what=f"Kafka poll, {POLL} at once{which}",
        unit="records/s",
        ours=1 / median(found.ours),
        peer=1 / median(found.peer),
        ratio=found.speed(),
        goal=goal,
        note=f"a group of its own each; {how}",
    )


if __name__ == "__main__":
    main("kafkalog", __doc__, measure)
