"""Gauges of waiting rows in the database of each service, read when they are scraped.

Promises: one small transaction a service and scrape; a database or log that is away gives no numbers, not old ones. A
log that hangs delays no scrape for longer than LOG_SECONDS, and hides no number of the database.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select, text

from tutti.backbone import Blobs, EventLog, Isolation, Transaction
from tutti.backbone.cached import CachedBlobs
from tutti.chassis.delivery import outbox
from tutti.chassis.runtime.machinery import Machinery
from tutti.chassis.store.unit import Unit, Units

log = logging.getLogger(__name__)
LOG_SECONDS = 2.0
"""Less than the timeout of a scrape, which is 10 s."""


class Waiting(Collector):
    """Outbox depth, tasks by kind and state, dead letters, how far the consumer is behind, and whether nobody leads.

    `paired`: the database is a Postgres primary with a standby, for which commits should wait.
    """

    def __init__(self, services: Mapping[str, tuple[Units, Machinery]], events: EventLog, *, paired: bool) -> None:
        self._services, self._paired = services, paired
        self._behind = _Behind(events, {name: machinery for name, (_, machinery) in services.items()})

    def collect(self) -> Iterable[GaugeMetricFamily]:
        unsent = GaugeMetricFamily("outbox_unsent_events", "Events that wait for the relay", labels=["service"])
        tasks = GaugeMetricFamily("tasks", "Tasks by kind and state", labels=["service", "kind", "state"])
        dead = GaugeMetricFamily("dead_letters", "Events that wait for a person, or behind one", labels=["service"])
        lag = GaugeMetricFamily("consumer_lag_records", "Records not yet handled", labels=["service", "topic"])
        missing = GaugeMetricFamily(
            "leader_missing", "1 while no replica leads the service, else 0", labels=["service"]
        )
        alone = GaugeMetricFamily(
            "database_standby_missing", "1 while commits do not wait for a standby, else 0", labels=["service"]
        )
        for name, (units, machinery) in self._services.items():
            try:
                read = partial(_read, machinery, self._paired)
                (depth, kinds, letters), leads, waits = units.run(read, isolation=Isolation.READ_COMMITTED)
            except Exception as error:
                log.warning("%s has no metrics: %s", name, error)
                continue
            unsent.add_metric([name], depth)
            dead.add_metric([name], letters)
            if leads is not None:
                missing.add_metric([name], 0 if leads else 1)
            if waits is not None:
                alone.add_metric([name], 0 if waits else 1)
            for (kind, state), count in sorted(kinds.items()):
                tasks.add_metric([name, kind, state], count)
        for (name, topic), count in sorted(self._behind.read().items()):
            lag.add_metric([name, topic], count)
        return [unsent, tasks, dead, lag, missing, alone]


class Cached(Collector):
    """Hit rate of the cache of blobs from a remote store."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def collect(self) -> Iterable[GaugeMetricFamily]:
        if isinstance(self._blobs, CachedBlobs) and (fetched := self._blobs.found_bytes + self._blobs.brought_bytes):
            ratio = self._blobs.found_bytes / fetched
            yield GaugeMetricFamily("cache_hit_ratio", "Bytes of fetched blobs that were on the local disk", ratio)


def _count(unit: Unit) -> tuple[int, dict[tuple[str, str], int], int]:
    tasks, dead = unit.tables.tasks, unit.tables.dead_letters
    rows = unit.tx.execute(select(tasks.c.kind, tasks.c.state, func.count()).group_by(tasks.c.kind, tasks.c.state))
    kinds = {(kind, state): int(count) for kind, state, count in rows.all()}
    letters = int(unit.tx.execute(select(func.count()).select_from(dead)).scalar_one())
    return outbox.count_unsent(unit), kinds, letters


def _read(
    machinery: Machinery, paired: bool, unit: Unit
) -> tuple[tuple[int, dict[tuple[str, str], int], int], bool | None, bool | None]:
    """Counts; whether a replica leads, None for a service without a leader; whether commits wait for the standby."""
    leadership = machinery.leadership
    leads = None if leadership is None else leadership.leader(unit).works
    return _count(unit), leads, waits_for_standby(unit.tx) if paired else None


def waits_for_standby(tx: Transaction) -> bool:
    """Return whether commits wait for a standby; the promoter ends that while the standby is away or lags."""
    return bool(tx.execute(text("SELECT current_setting('synchronous_standby_names')")).scalar_one())


class _Behind:
    """Reads how far consumers are behind, in a thread of its own, because a call to a log that hangs takes 30 s."""

    def __init__(self, events: EventLog, services: Mapping[str, Machinery]) -> None:
        self._events, self._services = events, services
        self._lock = threading.Lock()
        self._reading: _Reading | None = None

    def read(self) -> dict[tuple[str, str], int]:
        """Records not yet handled, by service and topic; none when they cannot be read within LOG_SECONDS."""
        with self._lock:
            if self._reading is None or self._reading.over.is_set():
                self._reading = _Reading()
                threading.Thread(target=self._run, args=(self._reading,), name="consumer lag", daemon=True).start()
            reading = self._reading
        in_time = reading.over.wait(max(reading.began + LOG_SECONDS - time.monotonic(), 0))
        return reading.found if in_time else {}

    def _run(self, reading: "_Reading") -> None:
        try:
            for name, machinery in self._services.items():
                for topic, count in _lag(self._events, machinery).items():
                    reading.found[name, topic] = count
        except Exception as error:
            reading.found.clear()
            log.warning("the consumer lag has no metrics: %s", error)
        finally:
            reading.over.set()


class _Reading:
    def __init__(self) -> None:
        self.began, self.over = time.monotonic(), threading.Event()
        self.found: dict[tuple[str, str], int] = {}


def _lag(events: EventLog, machinery: Machinery) -> dict[str, int]:
    consumer = machinery.consumer
    if consumer is None:
        return {}
    behind = {}
    for topic in machinery.consumed:
        done = events.committed(consumer.group, topic)
        behind[topic] = sum(end - done.get(at, 0) for at, end in events.end_offsets(topic).items())
    return behind
