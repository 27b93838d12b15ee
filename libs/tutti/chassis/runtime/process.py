"""The parts of a service in a process, as its settings say."""

import os
import socket
from datetime import timedelta

from tutti.backbone import EventLog, Isolation
from tutti.chassis.config.settings import Settings
from tutti.chassis.runtime.parts import Parts, assemble
from tutti.chassis.runtime.pruner import Retention
from tutti.chassis.service import Host, Service
from tutti.chassis.tasks import SOLE_SECONDS
from tutti.chassis.work.leadership import AT
from tutti.chassis.work.reconciler import Reconciler


def process_name() -> str:
    """The name of this process for people, as host:process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def parts_of(
    service: Service, host: Host, log: EventLog, settings: Settings, *, instance: str, incarnation: str
) -> Parts:
    """Return the parts of a service; nothing runs before the threads of their loops are started.

    `instance` names the place where the service runs, one process at a time, and `incarnation` this process.
    """
    for loop in service.loops:
        if isinstance(loop, Reconciler):
            loop.look_every(settings.lifecycle.reconcile_seconds)
    return assemble(
        host,
        service,
        log,
        holder=f"{instance}/{incarnation}{AT}{process_name()}",
        ttl=settings.lease.ttl_seconds,
        leader_ttl=settings.lease.leader_seconds,
        retention=Retention(
            facts=timedelta(days=settings.log.fact_retention_days),
            inbox=timedelta(days=settings.log.inbox_retention_days),
            audit=timedelta(days=settings.log.audit_retention_days),
        ),
        seal=True,
    )


def prepare(parts: Parts, instance: str) -> None:
    """Create or upgrade the tables of a service, and create its topics."""
    shared = parts.host.database.run(lambda tx: tx.skip_locked, isolation=Isolation.READ_COMMITTED)
    if not shared:  # rows that this process alone writes wake the loop that works on them
        parts.relay.interval = SOLE_SECONDS
        for worker in parts.workers:
            worker.sole = True
    parts.prepare(alone=not shared, instance=instance)
