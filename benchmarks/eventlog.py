"""The event log through its port beside the bare library: embedded beside SQLite, Kafka beside kafka-python.

Both get the same keys, values and headers in the same batches, and both are as durable: SQLite with synchronous=FULL,
Kafka with acks=all and the idempotent producer on a broker that syncs every record.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

from benchmarks.pairs import alternate, median, timed
from benchmarks.program import ROOT, NotHere, main, scratch
from benchmarks.table import Row, ratio_at_least
from tutti.backbone import Kind, NewRecord, SystemClock, SystemRandomness, Topic, uuid7
from tutti.backbone.connect import open_log

TOPIC = Topic("scheduler.jobs", Kind.STATE)
BATCHES = (50, 200)
VALUE_BYTES = 600
POLL = 500
TURN = 500
"""Records of one turn of reading, at least."""
SERVERS_SECONDS = 300


def measure(quick: bool) -> list[Row]:
    """Both adapters; where there is no Java, a row says so."""
    rows = embedded(pairs=60 if quick else 300)
    try:
        rows += kafka(pairs=25 if quick else 120)
    except NotHere as error:
        rows.append(Row("Kafka through the port", note=f"skipped: {error}", goal=ratio_at_least(0.8)))
    return rows


def batch(size: int) -> list[NewRecord]:
    """Records as the relay makes them: envelope in headers, a snapshot of a few hundred bytes."""
    clock, randomness = SystemClock(), SystemRandomness()
    return [
        NewRecord(
            TOPIC.name,
            f"jobs/{number:04d}",
            bytes((number + position) % 251 for position in range(VALUE_BYTES)),
            {
                "ce_specversion": "1.0",
                "ce_id": uuid7(clock, randomness),
                "ce_type": "tutti.scheduler.v1.Job",
                "ce_source": "scheduler",
                "ce_subject": f"jobs/{number:04d}",
                "ce_time": clock.now().isoformat(),
                "revision": str(number),
                "request_id": f"request-{number}",
                "traceparent": f"00-{number:032x}-{number:016x}-01",
            },
        )
        for number in range(size)
    ]


def embedded(*, pairs: int) -> list[Row]:
    """Beside rows that were encoded beforehand, and beside rows whose headers the peer encodes in its turn."""
    rows = []
    for size in BATCHES:
        with scratch("eventlog") as folder:
            log = open_log(f"sqlite://{quote(folder)}/events.db")
            log.ensure([TOPIC])
            bare, records = Bare(Path(folder) / "bare.db"), batch(size)
            prepared = [as_row(each) for each in records]
            ours = partial(log.append, records)
            peers = {
                "": (partial(bare.append, prepared), "encoded beforehand"),
                ", headers encoded": (partial(bare.append_encoding, records), "whose headers json.dumps encodes"),
            }
            for which, (peer, how) in peers.items():
                found = alternate(timed(ours), timed(peer), pairs=pairs, warmups=5)
                rows.append(
                    Row(
                        what=f"embedded log, batches of {size}{which}",
                        unit="records/s",
                        ours=size / median(found.ours),
                        peer=size / median(found.peer),
                        ratio=found.speed(),
                        goal=ratio_at_least(0.5),
                        note=f"peer: sqlite3, WAL, FULL, one table, executemany of rows {how}",
                    )
                )
                cores = alternate(timed(ours, time.process_time), timed(peer, time.process_time), pairs=pairs)
                rows.append(
                    Row(
                        what="  the same, time on a core",
                        unit="µs/record",
                        ours=1e6 * median(cores.ours) / size,
                        peer=1e6 * median(cores.peer) / size,
                        ratio=cores.speed(),
                    )
                )
            log.close()
            bare.close()
    return rows


Prepared = tuple[str, bytes, str]


def as_row(record: NewRecord) -> Prepared:
    return record.key, record.value, json.dumps(dict(record.headers))


class Bare:
    """What one would write with sqlite3 alone; as durable as the log."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("PRAGMA wal_autocheckpoint = 4000")
        self._connection.execute(
            "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL, headers TEXT)"
        )

    def append(self, rows: Sequence[Prepared]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO records (key, value, headers) VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def append_encoding(self, records: Sequence[NewRecord]) -> None:
        self.append([as_row(record) for record in records])

    def close(self) -> None:
        self._connection.close()


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


def kafka(*, pairs: int) -> list[Row]:
    size = BATCHES[-1]
    with scratch("kafka") as folder, broker(Path(folder)) as address:
        import kafka as library

        log = open_log(f"kafka://{address}")
        log.ensure([TOPIC])
        producer = library.KafkaProducer(
            bootstrap_servers=[address], acks="all", enable_idempotence=True, metrics_enabled=False
        )
        records = batch(size)
        prepared = [
            (each.key.encode(), each.value, [(name, value.encode()) for name, value in each.headers.items()])
            for each in records
        ]

        def bare() -> None:
            sent = [producer.send(TOPIC.name, value, key, headers) for key, value, headers in prepared]
            for future in sent:
                future.get(timeout=30)

        appended = alternate(timed(lambda: log.append(records)), timed(bare), pairs=pairs, warmups=5)
        subscription = log.subscribe("ours", [TOPIC.name])
        consumer = library.KafkaConsumer(
            TOPIC.name,
            bootstrap_servers=[address],
            group_id="bare",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metrics_enabled=False,
        )
        polled = alternate(
            lambda: cost_of_reading(lambda: len(subscription.poll(10.0, POLL))),
            lambda: cost_of_reading(lambda: sum(map(len, consumer.poll(timeout_ms=10_000, max_records=POLL).values()))),
            pairs=2 * size * pairs // TURN - 2,
            warmups=1,
        )
        subscription.close()
        consumer.close()
        producer.close()
        log.close()
    how = "peer: kafka-python with the same headers, keys, acks and idempotence"
    return [
        Row(
            what=f"Kafka append, batches of {size}",
            unit="records/s",
            ours=size / median(appended.ours),
            peer=size / median(appended.peer),
            ratio=appended.speed(),
            goal=ratio_at_least(0.8),
            note=how,
        ),
        Row(
            what="Kafka poll, 500 at once",
            unit="records/s",
            ours=1 / median(polled.ours),
            peer=1 / median(polled.peer),
            ratio=polled.speed(),
            goal=ratio_at_least(0.8),
            note="from a group of its own each; the peer takes ConsumerRecords as they come",
        ),
    ]


if __name__ == "__main__":
    main("eventlog", __doc__, measure)
