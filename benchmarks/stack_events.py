"""Events from one service's commit to another's, on Kafka and Postgres: how many a second for as long as it lasts.

Two hosts, each a process: one commits facts of 1 KiB as fast as its outbox is emptied, the other a row for each fact.
Counted are those rows; the outbox is stable, since no more than BACKLOG events wait in it.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import LiteralString, cast

import psutil
import psycopg
from sqlalchemy import Column, Integer, String, Table

from benchmarks.platforms import core_seconds
from benchmarks.program import WentWrong, main, scratch
from benchmarks.realservers import real_servers
from benchmarks.table import Row, at_least
from tutti.backbone import Isolation
from tutti.chassis.delivery import outbox
from tutti.chassis.errors import NotFound
from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed, Host, Service
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import Job, RankLost

GOAL = at_least(5000.0)
SECONDS, QUICK_SECONDS = 300.0, 30.0
WARMUP_SECONDS = 10.0
START_SECONDS = 60.0
BACKLOG, AT_ONCE, JOBS = 4000, 200, 24
CAUSE = "c" * 980
"""With its other fields an event has 1 KiB."""


class Writer:
    """A loop that commits new facts of JOBS resources in turns, while few events wait."""

    name, interval = "writer", 0.05

    def __init__(self, host: Host, jobs: Resource[Job]) -> None:
        self._host, self._jobs, self._turn = host, jobs, 0

    def step(self) -> bool:
        """Commit AT_ONCE facts; False while the outbox is full."""
        if self._host.units.run(outbox.count_unsent, isolation=Isolation.READ_COMMITTED) >= BACKLOG:
            return False
        self._turn += 1
        changed = Job(name=f"jobs/{self._turn % JOBS}", reason=str(self._turn))
        self._host.units.run(lambda unit: self._emit(unit, changed), isolation=Isolation.READ_COMMITTED)
        return True

    def _emit(self, unit: Unit, changed: Job) -> None:
        name = changed.name
        try:
            job = self._jobs.lock(unit, name)
        except NotFound:
            self._jobs.create(unit, changed)
        else:
            job.reason = changed.reason
            self._jobs.put(unit, job)
        for rank in range(AT_ONCE):
            unit.fact(name, RankLost(job=name, rank=rank, cause=CAUSE))


def writer(host: Host) -> Service:
    """The service that commits changes."""
    jobs = Resource(host.metadata, "jobs", Job)
    return Service(name="scheduler", resources=[jobs], facts=[RankLost], loops=[Writer(host, jobs)])


def reader(host: Host) -> Service:
    """The service on which each change has an effect: a row."""
    effects = Table(
        "effects",
        host.metadata,
        Column("id", String, primary_key=True),
        Column("rank", Integer, nullable=False),
    )

    def on(unit: Unit, events: Sequence[Event]) -> None:
        rows = [{"id": event.id, "rank": cast("RankLost", event.message).rank} for event in events]
        unit.tx.insert(effects, rows)

    return Service(name="reader", resources=(), tables=[effects], consumes=[Consumed(RankLost, on)])


@contextlib.contextmanager
def hosts(folder: Path, urls: Mapping[str, str]) -> Iterator[list[psutil.Process]]:
    """A process of each service, up for as long as the block lasts."""
    made = []
    try:
        for name, build in (("reader", "reader"), ("scheduler", "writer")):
            settings = {
                "log.url": urls["kafka"],
                "database.url": urls["postgres"],
                "blobs.url": f"file://{folder}/blobs",
            }
            sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
            where = ["--data-dir", str(folder / name), *sets, f"{name}=benchmarks.stack_events:{build}"]
            with (folder / f"{name}.log").open("wb") as output:
                command = [sys.executable, "-m", "tutti.platform.main", *where]
                made.append(subprocess.Popen(command, stderr=output))
        yield [psutil.Process(each.pid) for each in made]
    finally:
        for process in made:
            process.send_signal(signal.SIGTERM)
        for process in made:
            process.wait(START_SECONDS)


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where no event has an effect."""
    seconds = QUICK_SECONDS if quick else SECONDS
    with (
        scratch("stack-events") as name,
        real_servers(Path(name) / "servers", "kafka", "postgres") as urls,
        hosts(Path(name), urls) as running,
        psycopg.connect(urls["postgres"], autocommit=True) as connection,
    ):
        _await_effects(connection, running)
        time.sleep(WARMUP_SECONDS)
        first, started, used = _count(connection), time.perf_counter(), sum(core_seconds(each.pid) for each in running)
        time.sleep(seconds)
        last, ended = _count(connection), time.perf_counter()
        cores = (sum(core_seconds(each.pid) for each in running) - used) / (ended - started)
        waiting = _count(connection, "SELECT count(*) FROM scheduler.outbox WHERE sent_at IS NULL")
    rate = (last - first) / (ended - started)
    note = f"{last - first:,} events in {ended - started:.0f} s, {waiting:,} wait in the outbox at the end; "
    note += f"the two hosts use {cores:.2f} cores, Kafka and Postgres are on the same machine"
    return [Row("events of 1 KiB from commit to commit", "events/s", ours=rate, goal=GOAL, note=note)]


def _await_effects(connection: "psycopg.Connection[tuple[int, ...]]", running: Sequence[psutil.Process]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and all(each.is_running() for each in running):
        with contextlib.suppress(psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            if _count(connection):
                return
        time.sleep(0.2)
    raise WentWrong(f"no event had an effect within {START_SECONDS:.0f} s")


def _count(
    connection: "psycopg.Connection[tuple[int, ...]]", query: LiteralString = "SELECT count(*) FROM reader.effects"
) -> int:
    (found,) = connection.execute(query).fetchone() or (0,)
    return int(found)


if __name__ == "__main__":
    main("stack_events", __doc__, measure)
