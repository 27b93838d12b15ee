"""Gauges of waiting rows in the database of each service, read when they are scraped.

Promises: one small transaction a service and scrape; a database or log that is away gives no numbers, not old ones. One
that hangs delays no scrape for longer than READ_SECONDS, and hides no number of the other, or of the process.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select, text

from tutti.backbone import Blobs, EventLog, Isolation, Transaction
from tutti.backbone.cached import CachedBlobs
from tutti.chassis.delivery import outbox
from tutti.chassis.runtime.parts import Parts
from tutti.chassis.store.unit import Unit, Units

log = logging.getLogger(__name__)
READ_SECONDS = 2.0
"""Less than the timeout of a scrape, which is 10 s."""
K = TypeVar("K")
V = TypeVar("V")


class Waiting(Collector):
    """Outbox depth, tasks by kind and state, dead letters, how far the consumer is behind, and whether nobody leads.

    `paired`: the database is a Postgres primary with a standby, for which commits should wait.
    """

    def __init__(self, services: Mapping[str, tuple[Units, Parts]], events: EventLog, *, paired: bool) -> None:
        self._services, self._events, self._paired = services, events, paired
        self._rows, self._behind = _InTime(self._counted), _InTime(self._lags)

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
        until = time.monotonic() + READ_SECONDS
        counted, behind = self._rows.read(), self._behind.read()
        for name, rows in sorted(counted.by(until).items()):
            unsent.add_metric([name], rows.unsent)
            dead.add_metric([name], rows.dead)
            if rows.leads is not None:
                missing.add_metric([name], 0 if rows.leads else 1)
            if rows.waits is not None:
                alone.add_metric([name], 0 if rows.waits else 1)
            for (kind, state), count in sorted(rows.tasks.items()):
                tasks.add_metric([name, kind, state], count)
        for (name, topic), count in sorted(behind.by(until).items()):
            lag.add_metric([name, topic], count)
        return [unsent, tasks, dead, lag, missing, alone]

    def _counted(self) -> dict[str, "_Rows"]:
        """Counts of the rows of each service, without those whose database is away."""
        found = {}
        for name, (units, parts) in self._services.items():
            try:
                found[name] = units.run(partial(_read, parts, self._paired), isolation=Isolation.READ_COMMITTED)
            except Exception as error:
                log.warning("%s has no metrics: %s", name, error)
        return found

    def _lags(self) -> dict[tuple[str, str], int]:
        """Records not yet handled, by service and topic; none where the log is away."""
        try:
            return {
                (name, topic): count
                for name, (_, parts) in self._services.items()
                for topic, count in _lag(self._events, parts).items()
            }
        except Exception as error:
            log.warning("the consumer lag has no metrics: %s", error)
            return {}


class Cached(Collector):
    """Hit rate of the cache of blobs from a remote store."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def collect(self) -> Iterable[GaugeMetricFamily]:
        if isinstance(self._blobs, CachedBlobs) and (fetched := self._blobs.found_bytes + self._blobs.brought_bytes):
            ratio = self._blobs.found_bytes / fetched
            yield GaugeMetricFamily("cache_hit_ratio", "Bytes of fetched blobs that were on the local disk", ratio)


@dataclass(frozen=True)
class _Rows:
    """Counts of a service. `leads`: whether a replica does, None without a leader; `waits`: commits, for a standby."""

    unsent: int
    tasks: Mapping[tuple[str, str], int]
    dead: int
    leads: bool | None
    waits: bool | None


def _read(parts: Parts, paired: bool, unit: Unit) -> _Rows:
    tasks, dead, leadership = unit.tables.tasks, unit.tables.dead_letters, parts.leadership
    counts = unit.tx.execute(select(tasks.c.kind, tasks.c.state, func.count()).group_by(tasks.c.kind, tasks.c.state))
    return _Rows(
        unsent=outbox.count_unsent(unit),
        tasks={(kind, state): int(count) for kind, state, count in counts.all()},
        dead=int(unit.tx.execute(select(func.count()).select_from(dead)).scalar_one()),
        leads=None if leadership is None else leadership.leader(unit).works,
        waits=waits_for_standby(unit.tx) if paired else None,
    )


def waits_for_standby(tx: Transaction) -> bool:
    """Return whether commits wait for a standby; who manages the servers may end that while the standby is away."""
    return bool(tx.execute(text("SELECT current_setting('synchronous_standby_names')")).scalar_one())


class _InTime(Generic[K, V]):
    """Reads in a thread of its own, because a call to a server that hangs takes 30 s or more."""

    def __init__(self, find: Callable[[], dict[K, V]]) -> None:
        self._find, self._lock = find, threading.Lock()
        self._reading: _Reading[K, V] | None = None

    def read(self) -> "_Reading[K, V]":
        """A new reading, or the one that still goes on."""
        with self._lock:
            if self._reading is None or self._reading.over.is_set():
                self._reading = _Reading()
                threading.Thread(target=self._run, args=(self._reading,), name="gauges", daemon=True).start()
            return self._reading

    def _run(self, reading: "_Reading[K, V]") -> None:
        try:
            reading.found = self._find()
        finally:
            reading.over.set()


class _Reading(Generic[K, V]):
    def __init__(self) -> None:
        self.began, self.over = time.monotonic(), threading.Event()
        self.found: dict[K, V] = {}

    def by(self, until: float) -> dict[K, V]:
        """Return the findings by a monotonic time; none when the reading takes longer, or has taken READ_SECONDS."""
        until = min(until, self.began + READ_SECONDS)
        return self.found if self.over.wait(max(until - time.monotonic(), 0)) else {}


def _lag(events: EventLog, parts: Parts) -> dict[str, int]:
    consumer = parts.consumer
    if consumer is None:
        return {}
    behind = {}
    for topic in parts.consumed:
        done = events.committed(consumer.group, topic)
        behind[topic] = sum(end - done.get(at, 0) for at, end in events.end_offsets(topic).items())
    return behind
