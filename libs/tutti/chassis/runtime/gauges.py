"""Gauges of waiting rows in the database of each service, read when they are scraped.

Promises: one small transaction a service and scrape; a database that is away gives no numbers, not old ones.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from tutti.backbone import Blobs, EventLog, Isolation
from tutti.backbone.cached import CachedBlobs
from tutti.chassis.delivery import outbox
from tutti.chassis.runtime.machinery import Machinery
from tutti.chassis.store.unit import Unit, Units

log = logging.getLogger(__name__)


class Waiting(Collector):
    """Outbox depth, tasks by kind and state, dead letters, how far the consumer is behind, and whether nobody leads."""

    def __init__(self, services: Mapping[str, tuple[Units, Machinery]], events: EventLog) -> None:
        self._services, self._events = services, events

    def collect(self) -> Iterable[GaugeMetricFamily]:
        unsent = GaugeMetricFamily("outbox_unsent_events", "Events that wait for the relay", labels=["service"])
        tasks = GaugeMetricFamily("tasks", "Tasks by kind and state", labels=["service", "kind", "state"])
        dead = GaugeMetricFamily("dead_letters", "Events that wait for a person, or behind one", labels=["service"])
        lag = GaugeMetricFamily("consumer_lag_records", "Records not yet handled", labels=["service", "topic"])
        missing = GaugeMetricFamily(
            "leader_missing", "1 while no replica leads the service, else 0", labels=["service"]
        )
        for name, (units, machinery) in self._services.items():
            try:
                (depth, kinds, letters), leads = units.run(
                    partial(_read, machinery), isolation=Isolation.READ_COMMITTED
                )
                behind = _lag(self._events, machinery)
            except Exception as error:
                log.warning("%s has no metrics: %s", name, error)
                continue
            unsent.add_metric([name], depth)
            dead.add_metric([name], letters)
            if leads is not None:
                missing.add_metric([name], 0 if leads else 1)
            for (kind, state), count in sorted(kinds.items()):
                tasks.add_metric([name, kind, state], count)
            for topic, count in sorted(behind.items()):
                lag.add_metric([name, topic], count)
        return [unsent, tasks, dead, lag, missing]


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


def _read(machinery: Machinery, unit: Unit) -> tuple[tuple[int, dict[tuple[str, str], int], int], bool | None]:
    """Counts, and whether a replica leads; None for a service without a leader."""
    leadership = machinery.leadership
    return _count(unit), None if leadership is None else leadership.leader(unit).works


def _lag(events: EventLog, machinery: Machinery) -> dict[str, int]:
    consumer = machinery.consumer
    if consumer is None:
        return {}
    behind = {}
    for topic in machinery.consumed:
        done = events.committed(consumer.group, topic)
        behind[topic] = sum(end - done.get(at, 0) for at, end in events.end_offsets(topic).items())
    return behind
