"""The embedded event log through its port beside bare SQLite.

Both get the same records in the same batches and are as durable (synchronous=FULL). What a caller hands over are
records with headers: a peer that does the same work makes the same columns of them (key, value, headers as JSON, time)
while it is timed, and the goal is beside that one. Beside rows made beforehand the same is shown without a goal.
"""

import json
import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

from benchmarks.pairs import alternate, median, timed
from benchmarks.program import main, scratch
from benchmarks.table import Row, ratio_at_least
from tutti.backbone import Kind, NewRecord, SystemClock, SystemRandomness, Topic, uuid7
from tutti.backbone.connect import open_log

TOPIC = Topic("scheduler.jobs", Kind.STATE)
BATCHES = (50, 200)
VALUE_BYTES = 600
GOAL = ratio_at_least(0.5)


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


def measure(quick: bool) -> list[Row]:
    """Beside a peer that encodes the records in its turn, and beside one whose rows were encoded beforehand."""
    rows, pairs = [], 60 if quick else 300
    for size in BATCHES:
        with scratch("eventlog") as folder:
            log = open_log(f"sqlite://{quote(folder)}/events.db")
            log.ensure([TOPIC])
            bare, records = Bare(Path(folder) / "bare.db"), batch(size)
            prepared = as_rows(records)
            ours = partial(log.append, records)
            peers = {
                "": (
                    partial(bare.append_records, records),
                    "made of the records, headers by json.dumps",
                    GOAL,
                ),
                ", peer's rows made beforehand": (partial(bare.append, prepared), "that were made beforehand", None),
            }
            for which, (peer, how, goal) in peers.items():
                found = alternate(timed(ours), timed(peer), pairs=pairs, warmups=5)
                rows.append(
                    Row.of_speed(
                        what=f"embedded log, batches of {size}{which}",
                        unit="records/s",
                        amount=size,
                        pairs=found,
                        goal=goal,
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


Prepared = tuple[str, bytes, str, int]


def as_rows(records: Sequence[NewRecord]) -> list[Prepared]:
    """The columns of records."""
    now = int(time.time() * 1000)
    return [(record.key, record.value, json.dumps(dict(record.headers)), now) for record in records]


class Bare:
    """What one would write with sqlite3 alone; as durable as the log."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("PRAGMA wal_autocheckpoint = 4000")
        self._connection.execute(
            "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL, "
            "headers TEXT NOT NULL, timestamp_ms INTEGER NOT NULL)"
        )

    def append(self, rows: Sequence[Prepared]) -> None:
        """One transaction, durable on return."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO records (key, value, headers, timestamp_ms) VALUES (?, ?, ?, ?)", rows
        )
        self._connection.execute("COMMIT")

    def append_records(self, records: Sequence[NewRecord]) -> None:
        """The same from what a caller has."""
        self.append(as_rows(records))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


if __name__ == "__main__":
    main("eventlog", __doc__, measure)
