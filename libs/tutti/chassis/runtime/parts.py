"""Parts: everything of the chassis that runs for one service, made from its host and its declaration.

Promises: the same parts, made the same way, in a process of its own, beside others and in simulation; a declaration
that contradicts the catalogue is refused before anything runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import Message

from tutti.backbone import EventLog, Isolation, Kind, Topic
from tutti.backbone.database import Publishing
from tutti.chassis.delivery.consumer import Consumer
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.events.catalog import event_type, is_event, topics_of
from tutti.chassis.rpc.kinds import is_kind, kind_of
from tutti.chassis.rpc.methods import BadService
from tutti.chassis.rpc.references import Guarded, References
from tutti.chassis.rpc.watch import Hints
from tutti.chassis.runtime.pruner import Pruner, Retention
from tutti.chassis.service import Host, Loop, Service
from tutti.chassis.store import taskrows, views
from tutti.chassis.store.auditseals import Sealer
from tutti.chassis.store.histories import histories
from tutti.chassis.store.leases import Leases
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskRenewer, TaskSweeper, TaskWorker
from tutti.chassis.work.leadership import LEADER, Leadership


@dataclass
class Parts:
    """`loops` are all that must be stepped, the service's own among them."""

    host: Host
    service: Service
    log: EventLog
    leases: Leases
    relay: Relay
    leadership: Leadership | None
    consumer: Consumer | None
    workers: list[TaskWorker]
    renewer: TaskRenewer
    sweeper: TaskSweeper
    pruner: Pruner
    retention: Retention
    hints: Hints
    sealer: Sealer
    loops: list[Loop] = field(default_factory=list)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the service writes or reads."""
        return tuple(topic.name for topic in topics(self.service))

    @property
    def consumed(self) -> tuple[str, ...]:
        """The topics that the service reads."""
        return tuple(topic.name for topic in topics_of(each.message for each in self.service.consumes))

    def prepare(self, *, alone: bool, instance: str = "") -> None:
        """Create tables and topics. `alone`: no other process can have this database, so whoever held a lease or a
        task of it is gone and need not be waited for. Else that is known of holders of this `instance` alone: their
        tasks and their leadership are free again, not the lease of their relay, since what it sent last may still
        arrive."""
        self.host.database.create(self.host.metadata, histories(self.service.name, self.service.migrations))
        if isinstance(self.host.database, Publishing):
            self.host.database.publish(views.readable(self.service.resources, emitted(self.service)))
        seconds = max(1, round(self.retention.facts.total_seconds()))
        self.log.ensure([replace(topic, retention_seconds=seconds) for topic in topics(self.service)])
        if self.leadership is not None:
            self.leadership.sole = alone
        if alone or instance:
            of = "" if alone else instance
            self.host.units.run(lambda unit: self._vacate(unit, of), isolation=Isolation.READ_COMMITTED)

    def close(self) -> None:
        """Leave the group and give up the leases; the loops have been stopped before."""
        if self.consumer is not None:
            self.consumer.close()
        self.relay.release()
        if self.leadership is not None:
            self.leadership.release()

    def _vacate(self, unit: Unit, of: str) -> None:
        self.leases.vacate(unit, LEADER, of=of)
        taskrows.vacate(unit, of=of)


def assemble(
    host: Host,
    service: Service,
    log: EventLog,
    *,
    holder: str,
    ttl: float = 15.0,
    leader_ttl: float | None = None,
    retention: Retention | None = None,
    relay: Callable[..., Relay] = Relay,
    worker: Callable[..., TaskWorker] = TaskWorker,
    inbox: Callable[[str], Inbox] = Inbox,
    seal: bool = False,
) -> Parts:
    """`holder` is unique to this run of this service; `ttl` is that of tasks, and of leases unless these have another;
    `seal`: the audit trail is sealed. Raises BadService.
    """
    check(service)
    guarded = References(host, service)
    service.serves = [replace(each, api=Guarded(each.api, guarded)) for each in service.serves]
    leader_ttl = leader_ttl or ttl
    retention = retention or Retention()
    host.units.facts = frozenset(service.facts)
    leases = Leases(host.metadata)
    kinds = {kind.name: kind for kind in service.tasks}
    workers = [worker(host, {name: kind}, holder=holder, ttl=ttl) for name, kind in sorted(kinds.items())]
    consumer = None
    if service.consumes:
        consumer = Consumer(host.units, log, service.consumes, group=service.name, inbox=inbox(service.name))
    led = [loop for loop in service.loops if getattr(loop, "led", False)]
    leadership = Leadership(host.units, leases, holder=holder, ttl=leader_ttl, clock=host.clock) if led else None
    hints = Hints()
    for resource in service.resources:
        resource.changed.append(hints.notify)
    parts = Parts(
        host=host,
        service=service,
        log=log,
        leases=leases,
        relay=relay(host.units, log, leases, holder=holder, ttl=leader_ttl),
        leadership=leadership,
        consumer=consumer,
        workers=workers,
        renewer=TaskRenewer(service.name, lambda: workers, ttl=ttl),
        sweeper=TaskSweeper(host, kinds),
        pruner=Pruner(host.units, [service.name], retention=retention),
        retention=retention,
        hints=hints,
        sealer=Sealer(host.units, host.blobs, retention.audit),
    )
    chassis: Sequence[Loop | None] = (
        parts.relay,
        leadership,
        consumer,
        *workers,
        parts.renewer if workers else None,
        parts.sweeper if workers else None,
        parts.pruner,
    )
    own: list[Loop] = [leadership.lead(loop) if leadership and loop in led else loop for loop in service.loops]
    parts.loops = [*(loop for loop in chassis if loop is not None), *own, *([parts.sealer] if seal else [])]
    host.units.on_emit.append(parts.relay.woken.set)
    host.units.on_enqueue.extend(worker.woken.set for worker in workers)
    return parts


def check(service: Service) -> None:
    """Raises BadService, BadCatalogue."""
    for name, values in (
        ("kinds of resources", [resource.kind for resource in service.resources]),
        ("kinds of tasks", [kind.name for kind in service.tasks]),
        ("consumed events", [consumed.message.DESCRIPTOR.full_name for consumed in service.consumes]),
        ("loops", [loop.name for loop in service.loops]),
    ):
        if len(set(values)) != len(values):
            raise BadService(f"{service.name}: its {name} must differ, got {', '.join(sorted(values))}")
    if service.holds is None and any(
        is_kind(each.message) and kind_of(each.message).tenants for each in service.resources
    ):
        raise BadService(f"{service.name} owns kinds that belong to tenants: pass `holds`, to whom its blobs belong")
    for message in emitted(service):
        kind = event_type(message)
        if kind.owner != service.name:
            raise BadService(f"{service.name} emits {kind.type}, which belongs to {kind.owner}")
    for fact in service.facts:
        if event_type(fact).kind is not Kind.FACT:
            raise BadService(f"{service.name}: {fact.DESCRIPTOR.full_name} is among its facts, but is a STATE event")


def emitted(service: Service) -> list[type[Message]]:
    """The events that a service emits: its resources' snapshots and its facts."""
    messages: list[type[Any]] = [resource.message for resource in service.resources]
    return [message for message in messages if is_event(message)] + list(service.facts)


def topics(service: Service) -> list[Topic]:
    """The topics that a service writes or reads."""
    return topics_of([*emitted(service), *(consumed.message for consumed in service.consumes)])
