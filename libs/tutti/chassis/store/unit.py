"""Unit of work: one transaction, the resources that it holds, the events that it emits.

Promises: rows, tasks and events of a unit are committed together or not at all; an event is emitted only for a resource
that this unit wrote, under the revision that it gave it, or, of rows that belong to a resource, under the one that it
read; whoever waits for events or tasks is woken after the commit.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message
from sqlalchemy import MetaData, Table, Update, bindparam, update

from tutti.backbone import Clock, Database, Isolation, Kind, Randomness, Transaction, uuid7
from tutti.backbone.database import Conflict
from tutti.chassis.errors import EmitRefused, FencedOff, TooLarge
from tutti.chassis.events.catalog import EventType, event_type
from tutti.chassis.events.event import MAX_PAYLOAD_BYTES, Event, headers
from tutti.chassis.identity.cause import Cause, caused_by, current_cause
from tutti.chassis.store import audit, taskrows
from tutti.chassis.store.leases import Lease
from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import Tables, micros, tables_of
from tutti.chassis.store.terms import Deposed, FencedTransaction, term_of
from tutti.chassis.telemetry import new_traceparent

T = TypeVar("T")
Hook = Callable[[], None]
RACES = 20


class Raced(Exception):
    """Another transaction wrote the same key between our look and our write: run the unit again."""


class Changes(Protocol):
    """The listener that learns, after the commit, which resources have which new revision."""

    def notify(self, changes: frozenset[tuple[str, int]]) -> None: ...


@dataclass
class HeldResource:
    """A resource that this unit locked or created: `locked` is the revision found, 0 when created."""

    locked: int
    revision: int
    body: bytes

    @property
    def written(self) -> bool:
        return self.revision > self.locked


class Unit:
    """Made by Units; use it only inside the function that was given it."""

    def __init__(self, tx: Transaction, units: "Units", cause: Cause) -> None:
        self.tx = tx
        self.now: datetime = tx.now()
        self.monotonic = units.clock.monotonic()
        self.cause = cause
        self.held: dict[str, HeldResource] = {}
        self._units = units
        self._changes: dict[str, tuple[Changes, int]] = {}
        self._outgoing: list[dict[str, Any]] = []
        self.emitted = self.enqueued = False
        """Rows of the outbox, or tasks, wait: the commit wakes the relay, or the workers."""

    @property
    def tables(self) -> Tables:
        return self._units.tables

    def fact(self, resource_name: str, message: Message) -> None:
        """Emit a FACT of a resource that this unit put or created. Raises EmitRefused."""
        held = self.held.get(resource_name)
        if held is None or not held.written:
            raise EmitRefused(
                f"{event_type(type(message)).type} of {resource_name!r}: a fact needs a new revision of its resource; "
                f"lock it, change it and put it in this unit first"
            )
        self._fact(resource_name, held.revision, message)

    def fact_of_rows(self, resource: Message, message: Message) -> None:
        """Emit a FACT of rows that this unit wrote and that belong to a resource, which it read or holds.

        Rows are written more often than their resource, and by several units at once, so the resource is not locked.
        The event has the revision that this unit read, or gave it. Raises EmitRefused.
        """
        found: Any = resource
        held = self.held.get(found.name)
        self._fact(found.name, held.revision if held else found.revision, message)

    def state(self, name: str, revision: int, message: Message) -> None:
        """Emit the snapshot of a resource; called by Resource."""
        self._emit(event_type(type(message)), name, revision, message)

    def changed(self, name: str, revision: int, changes: Changes) -> None:
        """Remember whom to tell of a new revision; called by Resource."""
        self._changes[name] = (changes, revision)

    def wrote(self, name: str) -> bool:
        """True if this unit gave the resource a new revision (a repeated create does not)."""
        held = self.held.get(name)
        return held is not None and held.written

    def on_commit(self, hook: Hook) -> None:
        """Call it once after the commit, as an effect of what this unit is an effect of now."""
        now = self.cause

        def run() -> None:
            cause = now if now.traceparent else self.cause
            with caused_by(cause.afterwards()):
                hook()

        self.tx.on_commit(run)

    def savepoint(self, fn: Callable[[], T]) -> T:
        """Run `fn`; if it raises, what it wrote and emitted is undone and the error goes on."""
        held = {name: HeldResource(each.locked, each.revision, each.body) for name, each in self.held.items()}
        changes, outgoing = dict(self._changes), len(self._outgoing)
        try:
            return self.tx.savepoint(fn)
        except BaseException:
            self.held, self._changes = held, changes
            del self._outgoing[outgoing:]
            raise

    def insert_new(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that this unit did not find; if another has written one since, the unit is run again."""
        try:
            self.tx.savepoint(lambda: self.tx.insert(table, rows))
        except Conflict as error:
            raise Raced(f"a row of {table.name} was written by another at the same time") from error

    def fence(self, lease: Lease) -> None:
        """Lock the lease's row as its holder. Raises FencedOff."""
        held = {"wanted": lease.name, "by": lease.holder, "under": lease.epoch, "epoch": lease.epoch}
        if self.tx.execute(_fenced(self.tables.leases), held).rowcount != 1:
            raise FencedOff(f"the lease {lease.name} of {lease.holder} (epoch {lease.epoch}) went to another holder")

    def enqueue(self, kind: str, resource: str, payload: bytes = b"", id: str | None = None) -> str:
        """Add a task; the same id again changes nothing. Returns its id."""
        self.enqueued = True
        name = id if id is not None else self.new_id()
        return taskrows.enqueue(self, name, kind, resource, payload)

    def cancel_tasks(self, resource: str) -> int:
        """Cancel the tasks of a resource that have not ended; how many."""
        return taskrows.cancel(self, resource)

    def new_id(self) -> str:
        return uuid7(self._units.clock, self._units.randomness)

    def close(self) -> None:
        """Write the events, record who changed what, and register what follows the commit; called by Units."""
        self.write_events()
        self._record()
        told: dict[Changes, set[tuple[str, int]]] = {}
        for name, (changes, revision) in self._changes.items():
            told.setdefault(changes, set()).add((name, revision))
        for changes, names in told.items():
            self.tx.on_commit(lambda changes=changes, names=frozenset(names): changes.notify(names))  # type: ignore[misc]
        for hook in (*self._units.on_emit * self.emitted, *self._units.on_enqueue * self.enqueued):
            self.tx.on_commit(hook)

    def write_events(self) -> None:
        """Write what was emitted so far in one statement; the end of the unit does so anyway.

        The rows of the resources are locked until the commit, so the events of a resource keep their order.
        """
        if self._outgoing:
            self.tx.insert(self.tables.outbox, self._outgoing)
            self._outgoing = []

    def _record(self) -> None:
        """In the audit trail, while a call is answered on behalf of a person."""
        principal = self.cause.principal
        if principal is None or not self.cause.action or principal.is_machine:
            return
        for name, held in sorted(self.held.items()):
            if held.written:
                audit.changed(self, principal, self.cause.action, name, held.revision)

    def _fact(self, subject: str, revision: int, message: Message) -> None:
        kind = event_type(type(message))
        if kind.kind is not Kind.FACT:
            raise EmitRefused(f"{kind.type} is a STATE event: it is emitted by putting the resource, not by fact()")
        declared = self._units.facts
        if declared is not None and type(message) not in declared:
            raise EmitRefused(f"{kind.type} is not among the facts of {self._units.service}: add it to Service.facts")
        self._emit(kind, subject, revision, message)

    def _emit(self, kind: EventType, subject: str, revision: int, message: Message) -> None:
        key = getattr(message, kind.key)
        if not key:
            raise EmitRefused(f"{kind.type}: its key field {kind.key} is not set, expected {subject!r}")
        if key != subject:
            raise EmitRefused(f"{kind.type}: its key field {kind.key} is {key!r}, expected the resource {subject!r}")
        if kind.owner != self._units.service:
            raise EmitRefused(f"{kind.type} belongs to {kind.owner}; {self._units.service} may not emit it")
        payload = message.SerializeToString(deterministic=True)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise TooLarge(
                f"{kind.type} of {subject} has {len(payload)} bytes, an event has at most {MAX_PAYLOAD_BYTES}: "
                f"put the data into a blob and send its key"
            )
        if not self.cause.traceparent:
            self.cause = replace(self.cause, traceparent=new_traceparent(f"{self._units.service} changes {subject}"))
        event = Event(
            self.new_id(),
            kind.type,
            subject,
            revision,
            self.now,
            self.cause.request_id,
            message,
            self.cause.traceparent,
            self.cause.principal.user if self.cause.principal else "",
        )
        row = {
            "id": event.id,
            "type": kind.type,
            "topic": kind.topic,
            "kind": kind.kind.value,
            "subject": subject,
            "revision": revision,
            "made_at": micros(self.now),
            "headers": json.dumps(headers(event, self._units.service, payload)),
            "payload": payload,
        }
        self._outgoing.append(row)
        self.emitted = True


class Units:
    """Runs units on the database of one service."""

    def __init__(
        self, database: Database, service: str, metadata: MetaData, *, clock: Clock, randomness: Randomness
    ) -> None:
        self.database, self.service = database, service
        self.clock, self.randomness = clock, randomness
        self.tables = tables_of(metadata)
        self.facts: frozenset[type[Message]] | None = None
        self.on_emit: list[Hook] = []
        self.on_enqueue: list[Hook] = []

    def run(self, fn: Callable[[Unit], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """One transaction; `fn` may be run again, so it touches nothing but its unit.

        Under a term, what it writes is fenced by the term. Raises Deposed.
        """
        cause, term = current_cause(), term_of(self)

        def work(tx: Transaction) -> T:
            fenced = tx if term is None else FencedTransaction(tx, term.lease, self.tables.leases)
            unit = Unit(fenced, self, cause)
            result = fn(unit)
            unit.close()
            return result

        try:
            for _ in range(RACES):
                try:
                    return self.database.run(work, isolation=isolation)
                except Raced:
                    continue
            return self.database.run(work, isolation=isolation)
        except Deposed:
            if term is not None:
                term.lost(term.lease)
            raise


@prepared
def _fenced(leases: Table) -> Update:
    mine = (leases.c.holder == bindparam("by"), leases.c.epoch == bindparam("under"))
    return update(leases).where(leases.c.name == bindparam("wanted"), *mine)
