"""The parts that work for a service besides its own loops, and the hints that wake watches.

Promises: built from the Service value alone; nothing runs before its threads are started.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from tutti.backbone import EventLog, Isolation
from tutti.chassis.config.settings import Settings
from tutti.chassis.delivery.consumer import Consumer
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.events.catalog import topics_of
from tutti.chassis.rpc.watch import Hints
from tutti.chassis.runtime.parts import assemble as assemble_parts
from tutti.chassis.runtime.parts import topics
from tutti.chassis.runtime.pruner import Retention
from tutti.chassis.service import Host, Loop, Service
from tutti.chassis.store.auditseals import Sealer
from tutti.chassis.work.leadership import AT, Leadership
from tutti.chassis.work.reconciler import Reconciler


@dataclass(frozen=True)
class Machinery:
    """`prepare` creates or upgrades the tables, and creates the topics; call it before anything runs."""

    prepare: Callable[[], None]
    relay: Relay
    leadership: Leadership | None
    consumer: Consumer | None
    hints: Hints
    loops: tuple[Loop, ...]
    topics: tuple[str, ...]
    consumed: tuple[str, ...]
    audit_retention: timedelta
    sealer: Sealer

    def close(self) -> None:
        """Leave the group and give the leases up, so that others need not wait."""
        if self.consumer is not None:
            self.consumer.close()
        self.relay.release()
        if self.leadership is not None:
            self.leadership.release()


def process_name() -> str:
    """The name of this process for people, as host:process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def assemble(
    service: Service, host: Host, log: EventLog, settings: Settings, *, instance: str, incarnation: str
) -> Machinery:
    """Return what carries the events of a service.

    `instance` names the place where the service runs, one process at a time, and `incarnation` this process.
    """
    holder = f"{instance}/{incarnation}{AT}{process_name()}"
    retention = Retention(
        facts=timedelta(days=settings.log.fact_retention_days),
        inbox=timedelta(days=settings.log.inbox_retention_days),
        audit=timedelta(days=settings.log.audit_retention_days),
    )
    parts = assemble_parts(
        host,
        service,
        log,
        holder=holder,
        ttl=settings.lease.ttl_seconds,
        leader_ttl=settings.lease.leader_seconds,
        retention=retention,
    )
    shared = host.database.run(lambda tx: tx.skip_locked, isolation=Isolation.READ_COMMITTED)
    for loop in service.loops:
        if isinstance(loop, Reconciler):
            loop.look_every(settings.lifecycle.reconcile_seconds)
    hints = Hints()
    for resource in service.resources:
        resource.changed.append(hints.notify)
    names = tuple(topic.name for topic in topics(service))
    consumed = tuple(topic.name for topic in topics_of(each.message for each in service.consumes))
    sealer = Sealer(host.units, host.blobs, retention.audit)
    return Machinery(
        lambda: parts.prepare(alone=not shared, instance=instance),
        parts.relay,
        parts.leadership,
        parts.consumer,
        hints,
        (*parts.loops, sealer),
        names,
        consumed,
        retention.audit,
        sealer,
    )
