"""One hop: from the commit of a change over outbox, relay, log and consumer to the commit of its effect.

Two small services in a real host: one owns a resource and emits its snapshots, the other counts them in a table. The
peer is the least that any durable hop has to do: two commits of SQLite on the same disk, one after the other.
"""

import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Integer, String, Table

from benchmarks.pairs import alternate, median, percentile
from benchmarks.program import main, scratch
from benchmarks.table import Row, at_most
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import load
from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed, Host, Service
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import STATE_PENDING
from tutti.contracts.ingest.v1 import Ingest, IngestSpec
from tutti.platform.host import HostProcess

GOAL_MS = 25.0
REST_SECONDS = 0.02
LATEST_SECONDS = 30.0


class Owner:
    """The service that changes something."""

    def __init__(self) -> None:
        self.committed = 0.0
        self._number = 0

    def build(self, host: Host) -> Service:
        """As the host asks for it."""
        self._host = host
        self._resource = Resource(host.metadata, "ingests", Ingest)
        return Service(name="ingest", resources=[self._resource])

    def change(self) -> str:
        """Commit one new resource; its name. `committed` is when."""
        self._number += 1
        name = f"ingests/{self._number}"

        def work(unit: Unit) -> None:
            message = Ingest(name=name, spec=IngestSpec(input_path="/pages"), state=STATE_PENDING)
            self._resource.create(unit, message)
            unit.on_commit(self._note)

        self._host.units.run(work)
        return name

    def _note(self) -> None:
        self.committed = time.perf_counter()


class Listener:
    """The service on which the change has an effect: one row an event."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}
        self.woken = threading.Condition()

    def build(self, host: Host) -> Service:
        """As the host asks for it."""
        self._effects = Table(
            "effects",
            host.metadata,
            Column("name", String, primary_key=True),
            Column("revision", Integer, nullable=False),
        )
        return Service(name="listener", resources=(), tables=[self._effects], consumes=[Consumed(Ingest, self._on)])

    def _on(self, unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            unit.tx.execute(self._effects.insert(), {"name": event.subject, "revision": event.revision})
        names = [event.subject for event in events]
        unit.on_commit(lambda: self._note(names))

    def _note(self, names: Sequence[str]) -> None:
        with self.woken:
            self.seen.update(dict.fromkeys(names, time.perf_counter()))
            self.woken.notify_all()

    def when(self, name: str) -> float:
        """Waits for the effect of this change; when it was committed. Raises TimeoutError."""
        with self.woken:
            if not self.woken.wait_for(lambda: name in self.seen, LATEST_SECONDS):
                raise TimeoutError(f"{name} had no effect within {LATEST_SECONDS:.0f} s")
            return self.seen.pop(name)


def measure(quick: bool) -> list[Row]:
    """A hop beside the log alone."""
    owner, listener = Owner(), Listener()
    with scratch("hop") as folder:
        floor = Floor(Path(folder))
        builds = {"ingest": owner.build, "listener": listener.build}
        loaded = load(environment={}, services=[*builds])
        host = HostProcess(builds, DataDir(Path(folder) / "data"), loaded)
        host.start()
        try:

            def ours() -> float:
                time.sleep(REST_SECONDS)  # every loop is at rest again: this is about latency
                name = owner.change()
                return listener.when(name) - owner.committed

            found = alternate(ours, floor.hop, pairs=100 if quick else 600, warmups=10)
        finally:
            host.stop()
            floor.close()
    note = "peer: two commits of bare SQLite (FULL); the goal is of the absolute time"
    return [
        Row(
            what="one hop, p50",
            unit="ms",
            ours=1000 * median(found.ours),
            peer=1000 * median(found.peer),
            ratio=found.cost(),
            goal=at_most(GOAL_MS),
            note=note,
        ),
        Row(
            what="one hop, p99",
            unit="ms",
            ours=1000 * percentile(found.ours, 99),
            peer=1000 * percentile(found.peer, 99),
        ),
    ]


class Floor:
    """Two durable SQLite files."""

    def __init__(self, folder: Path) -> None:
        self._files = [sqlite3.connect(folder / name, isolation_level=None) for name in ("log.db", "inbox.db")]
        for connection in self._files:
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB)")

    def hop(self) -> float:
        """The seconds of two commits."""
        time.sleep(REST_SECONDS)
        started = time.perf_counter()
        for connection in self._files:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (body) VALUES (?)", (bytes(600),))
            connection.execute("COMMIT")
        return time.perf_counter() - started

    def close(self) -> None:
        """Close both files."""
        for connection in self._files:
            connection.close()


if __name__ == "__main__":
    main("hop", __doc__, measure)
