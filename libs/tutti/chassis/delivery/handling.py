"""Handling: what one transaction does with a batch of records.

Promises: an event that was handled is skipped, one behind a dead letter of its subject is parked, one that its handler
cannot take even alone is dead-lettered, and so is a record that is no event; an unknown type is skipped and counted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tutti.backbone import Clock, Kind, Record
from tutti.backbone.database import Conflict, DatabaseError
from tutti.backbone.transactions import AbortedTransaction, NestedTransaction
from tutti.chassis.delivery.deadletters import MAX_NAME_BYTES, DeadLetter, DeadLetters, storable
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.events.catalog import EventType, event_type
from tutti.chassis.events.event import Event, Undecodable, decode
from tutti.chassis.identity.cause import Cause
from tutti.chassis.identity.principal import attributed
from tutti.chassis.metrics import metrics
from tutti.chassis.service import Consumed
from tutti.chassis.store.unit import Raced, Unit
from tutti.chassis.telemetry import current_traceparent, span_from

BUDGET_SECONDS = 0.005
MAX_BATCH = 200
MAX_ALONE = 50
"""Each event that is taken alone has a savepoint, and Postgres keeps 64 of a transaction in memory."""
UNSTORABLE = f"has a NUL character, or more than {MAX_NAME_BYTES} bytes"
_POISON = (Conflict, AbortedTransaction, NestedTransaction)
_handled = metrics.counter("events_handled", "Events whose effect was committed.", labels=("group", "type"))
_skipped = metrics.counter("events_skipped", "Events without effect here.", labels=("group", "why"))
_died = metrics.counter("events_dead_lettered", "Events that their handler could not take.", labels=("group",))


class Verdict(Enum):
    HANDLE = auto()
    DUPLICATE = auto()
    UNKNOWN = auto()
    PARK = auto()
    DIE = auto()


class _Lost(Exception):
    """Another member of the group wrote the fence first."""


@dataclass(frozen=True)
class _Item:
    """A record, and the event in it, or why there is none; no type: one that is not consumed."""

    id: str
    record: Record
    type: EventType | None
    event: Event | None
    error: str = ""


@dataclass
class _Known:
    """The rows about the records of a batch, kept up to date while it is handled."""

    seen: set[str]
    revisions: dict[str, int]
    subjects: set[str]
    """Subjects of states of which the inbox has a row."""
    letters: set[str]
    parked: set[str]


class Handling:
    def __init__(self, consumes: Sequence[Consumed], *, group: str, inbox: Inbox, clock: Clock) -> None:
        self._group, self._inbox, self._clock = group, inbox, clock
        self.letters = DeadLetters(group)
        self._types = {each.type: each for each in (event_type(one.message) for one in consumes)}
        self._handlers = {event_type(one.message).type: one.handler for one in consumes}
        if len(self._types) != len(consumes):
            raise ValueError(f"{group} consumes an event type twice; it has {', '.join(sorted(self._types))}")

    @property
    def topics(self) -> list[str]:
        return sorted({each.topic for each in self._types.values()})

    def apply(self, unit: Unit, records: Sequence[Record]) -> int:
        """Handle some of the records, from the first; how many. As many as the budget of time allows."""
        items = [self._item(record) for record in records[:MAX_BATCH]]
        known = self._look_up(unit, items)
        started, done, alone = self._clock.monotonic(), 0, 0
        while done < len(items) and alone < MAX_ALONE:
            if done and self._clock.monotonic() - started > BUDGET_SECONDS:
                break
            item = items[done]
            verdict = self._verdict(item, known)
            if verdict is Verdict.HANDLE:
                run = self._run_of(items[done:], known)
                if self._try(unit, run, known) is not None:
                    some = run[: MAX_ALONE - alone]
                    self._one_by_one(unit, some, known)
                    return done + len(some)
                done += len(run)
                continue
            if verdict is Verdict.PARK:
                self.letters.add(unit, item.id, item.record, None)
            elif verdict is Verdict.DIE:
                self._bury(unit, item, item.error, known)
            else:
                self._count(unit, _skipped.labels(self._group, verdict.name.lower()).inc)
            alone += verdict in (Verdict.PARK, Verdict.DIE)
            done += 1
        return done

    def settle(self, unit: Unit, subject: str, discard: str | None) -> tuple[int, DeadLetter | None]:
        """Handle the first letters of a subject in order, except `discard`, which is dropped.

        How many are settled, and the one that died again, if one did.
        """
        done = 0
        for letter in self.letters.queue(unit, subject, MAX_ALONE):
            item = self._item(letter.record, letter.id)
            if letter.id == discard:
                self._drop(unit, item)
            elif item.error:
                self.letters.kill(unit, letter, item.error)
                return done, letter
            elif self._verdict(item, known := self._look_up(unit, [item], letters=False)) is Verdict.HANDLE:
                error = self._try(unit, [item], known)
                if error is not None:
                    self.letters.kill(unit, letter, error)
                    return done, letter
            self.letters.remove(unit, letter)
            done += 1
        return done, None

    def _item(self, record: Record, id: str = "") -> _Item:
        name = record.headers.get("ce_type", "")
        kind = self._types.get(name)
        id = id or record.headers.get("ce_id", "") or f"{record.topic}/{record.partition}/{record.offset}"
        stored_id, stored = storable(id), record._replace(key=storable(record.key))
        if kind is None:
            return _Item(stored_id, stored, None, None, "" if name else "the header ce_type is missing")
        if (stored_id, stored.key) != (id, record.key):
            return _Item(stored_id, stored, None, None, f"its key or its id {UNSTORABLE}")
        try:
            event = decode(record, kind)
        except Undecodable as error:
            return _Item(id, record, kind, None, str(error))
        if event.id != id:  # of a dead letter that was put aside under another
            return _Item(id, record, kind, None, f"its id {UNSTORABLE}")
        return _Item(id, record, kind, event)

    def _look_up(self, unit: Unit, items: Iterable[_Item], *, letters: bool = True) -> _Known:
        items = list(items)
        ids, keys = {each.id for each in items}, {each.record.key for each in items}
        states = {each.record.key for each in items if _is_state(each)}
        revisions = self._inbox.revisions(unit, states)
        return _Known(
            self._inbox.seen(unit, ids),
            revisions,
            set(revisions),
            self.letters.holds(unit, ids) if letters else set(),
            self.letters.parked(unit, keys) if letters else set(),
        )

    def _verdict(self, item: _Item, known: _Known) -> Verdict:
        if item.id in known.letters or item.id in known.seen:
            return Verdict.DUPLICATE
        if item.event is not None and _is_state(item):
            if item.event.revision <= known.revisions.get(item.event.subject, 0):
                return Verdict.DUPLICATE
        elif item.type is None and not item.error:
            return Verdict.UNKNOWN
        if item.record.key in known.parked:
            return Verdict.PARK
        return Verdict.DIE if item.error else Verdict.HANDLE

    def _run_of(self, items: Sequence[_Item], known: _Known) -> list[_Item]:
        """The first items that are of one type and to be handled; they count as seen from here on."""
        run: list[_Item] = []
        for item in items:
            if item.type is not items[0].type or self._verdict(item, known) is not Verdict.HANDLE:
                break
            assert item.event is not None
            known.seen.add(item.id)
            if _is_state(item):
                known.revisions[item.event.subject] = item.event.revision
            run.append(item)
        return run

    def _one_by_one(self, unit: Unit, run: Sequence[_Item], known: _Known) -> None:
        for item in run:
            if item.record.key in known.parked:
                self.letters.add(unit, item.id, item.record, None)
            elif (error := self._try(unit, [item], known)) is not None:
                self._bury(unit, item, error, known)

    def _try(self, unit: Unit, run: Sequence[_Item], known: _Known) -> str | None:
        """Fence and handle in a savepoint; what made it impossible, or None."""
        try:
            unit.savepoint(lambda: self._take(unit, run, known))
        except _Lost as error:
            raise Raced(f"another member of {self._group} handled some of the same events") from error
        except Raced:
            raise
        except Exception as error:
            if isinstance(error, DatabaseError) and not isinstance(error, _POISON):
                raise
            return f"{type(error).__name__}: {error}"
        known.subjects |= {item.event.subject for item in run if item.event is not None and _is_state(item)}
        name = run[0].event.type if run[0].event is not None else ""
        self._count(unit, lambda: _handled.labels(self._group, name).inc(len(run)))
        return None

    def _take(self, unit: Unit, run: Sequence[_Item], known: _Known) -> None:
        kind, events = run[0].type, [each.event for each in run if each.event is not None]
        assert kind is not None
        try:
            self._inbox.fence(unit, kind.kind, events, known.subjects)
        except Conflict as error:
            raise _Lost from error
        before = unit.cause
        with span_from(events[-1].traceparent, f"handle {kind.type}"):
            unit.cause = Cause(events[-1].request_id, current_traceparent(), attributed(events[-1].user))
            try:
                self._handlers[kind.type](unit, events)
            finally:
                unit.cause = before

    def _bury(self, unit: Unit, item: _Item, error: str, known: _Known) -> None:
        self.letters.add(unit, item.id, item.record, error)
        known.parked.add(item.record.key)
        known.letters.add(item.id)
        self._count(unit, lambda: _died.labels(self._group).inc())

    def _drop(self, unit: Unit, item: _Item) -> None:
        """Count a discarded event as handled, so that its next delivery is skipped."""
        if item.type is None or item.event is None:
            self._inbox.fence_id(unit, item.id)
            return
        known = self._look_up(unit, [item], letters=False)
        if self._verdict(item, known) is Verdict.HANDLE:
            self._inbox.fence(unit, item.type.kind, [item.event], known.subjects)

    def _count(self, unit: Unit, count: Callable[[], None]) -> None:
        unit.on_commit(count)


def _is_state(item: _Item) -> bool:
    return item.type is not None and item.type.kind is Kind.STATE
