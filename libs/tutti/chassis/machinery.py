"""What works for a service beside its own loops: relay, consumer, workers, hints for watches.

Promises: built from the Service value alone; nothing runs before its threads are started.
"""

from dataclasses import dataclass, field

from tutti.backbone import EventLog, Isolation
from tutti.chassis import taskrows
from tutti.chassis.catalog import is_event, topics_of
from tutti.chassis.consumer import Consumer
from tutti.chassis.leases import Leases
from tutti.chassis.relay import Relay
from tutti.chassis.service import Host, Loop, Service
from tutti.chassis.settings import Settings
from tutti.chassis.unit import Unit
from tutti.chassis.watch import Hints

POLL_SECONDS = 0.2  # below what counts as blocked


@dataclass(frozen=True)
class Machinery:
    relay: Relay
    consumer: Consumer | None
    hints: Hints
    loops: tuple[Loop, ...]
    topics: tuple[str, ...] = field(default=())

    def close(self) -> None:
        """Leave the group and give the lease up, so that others need not wait."""
        if self.consumer is not None:
            self.consumer.close()
        self.relay.release()


def assemble(service: Service, host: Host, log: EventLog, settings: Settings, *, holder: str) -> Machinery:
    """Create the tables and topics of a service and what carries its events. `holder` names this process."""
    emitted = [each.message for each in service.resources if is_event(each.message)]
    topics = topics_of([*emitted, *service.facts, *(each.message for each in service.consumes)])
    leases = Leases(host.metadata)
    host.database.create(host.metadata)
    log.ensure(topics)
    host.units.facts = frozenset(service.facts)
    host.units.run(lambda unit: _vacate(unit, leases), isolation=Isolation.READ_COMMITTED)
    relay = Relay(host.units, log, leases, holder=holder, ttl=settings.lease.ttl_seconds)
    host.units.on_emit.append(relay.woken.set)
    consumer = None
    if service.consumes:
        consumer = Consumer(host.units, log, service.consumes, group=service.name, poll_seconds=POLL_SECONDS)
    hints = Hints()
    for resource in service.resources:
        resource.changed.append(hints.notify)
    loops: list[Loop] = [relay, *([consumer] if consumer else []), *service.loops]
    return Machinery(relay, consumer, hints, tuple(loops), tuple(topic.name for topic in topics))


def _vacate(unit: Unit, leases: Leases) -> None:
    """Where one process owns the database, whatever held a lease before is gone."""
    if not unit.tx.skip_locked:
        leases.vacate(unit)
        taskrows.vacate(unit)
