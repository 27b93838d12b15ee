"""The oracle: what must be true when everything has settled.

Promises: tables equal the in-order fold of their snapshots; each committed event was published and nothing else was;
each was handled once; what a client was told still stands.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, select

from tutti.backbone import EventLog, Kind, Record, TopicPartition
from tutti.chassis.delivery import outbox
from tutti.chassis.events.catalog import event_type, is_event
from tutti.chassis.runtime.parts import topics
from tutti.chassis.store.taskrows import TaskState
from tutti.simulation import effects

if TYPE_CHECKING:
    from tutti.simulation.lives import Life
    from tutti.simulation.simulation import Simulation


@dataclass(frozen=True)
class Snapshot:
    revision: int
    payload: bytes


def records(log: EventLog, topic: str) -> Iterable[Record]:
    """All that a topic holds, partition by partition in order."""
    for at, end in sorted(log.end_offsets(topic).items()):
        yield from _partition(log, at, end)


def fold(log: EventLog, topics: Iterable[str]) -> dict[str, Snapshot]:
    """The newest snapshot of each subject of these STATE topics, from an in-order fold."""
    newest: dict[str, Snapshot] = {}
    for topic in topics:
        for record in records(log, topic):
            revision = int(record.headers["revision"])
            if record.key not in newest or newest[record.key].revision < revision:
                newest[record.key] = Snapshot(revision, record.value)
    return newest


def is_settled(simulation: "Simulation") -> bool:
    """True if no event waits for a relay or a consumer, no task for a worker, and no relay has to poll again."""
    if simulation.relay_uncertain:
        return False
    return all(_waits(simulation, lives[0]) == 0 for lives in simulation.lives.values())


def examine(simulation: "Simulation") -> list[str]:
    """List the violated invariants, in words."""
    wrong: list[str] = []
    tables: dict[str, Snapshot] = {}
    for lives in simulation.lives.values():
        wrong += _published(simulation, lives[0])
        wrong += _folded(simulation, lives[0], tables)
        wrong += _handled(simulation, lives[0])
    for name, revision in simulation.network.acknowledged.items():
        if name not in tables or tables[name].revision < revision:
            wrong.append(f"{name} was acknowledged at revision {revision} and is gone")
    return wrong


def emitted(simulation: "Simulation") -> Counter[str]:
    """The number of committed events of each type."""
    counts: Counter[str] = Counter()
    for lives in simulation.lives.values():
        counts.update(row.type for row in _rows(simulation, lives[0], lives[0].parts.host.units.tables.outbox))
    return counts


def _partition(log: EventLog, at: TopicPartition, end: int) -> Iterable[Record]:
    offset = 0
    while offset < end and (some := log.read(at, offset)):
        yield from some
        offset = some[-1].offset + 1


def _rows(simulation: "Simulation", life: "Life", table: Table) -> list[Any]:
    return simulation.peek(life.service.name, lambda unit: list(unit.tx.execute(select(table)).all()))


def _waits(simulation: "Simulation", life: "Life") -> int:
    units, log = life.parts.host.units, simulation.world.log
    running = [TaskState.WAITING.value, TaskState.RUNNING.value]
    tasks = units.tables.tasks
    waiting = simulation.peek(
        life.service.name,
        lambda unit: (
            outbox.count_unsent(unit) + len(unit.tx.execute(select(tasks.c.id).where(tasks.c.state.in_(running))).all())
        ),
    )
    for topic in {event_type(each.message).topic for each in life.service.consumes}:
        committed = log.committed(life.service.name, topic)
        waiting += sum(end - committed.get(at, 0) for at, end in log.end_offsets(topic).items())
    return waiting


def _published(simulation: "Simulation", life: "Life") -> list[str]:
    """Every outbox row is in the log, nothing else is, and each subject's revisions came in order."""
    wrong, log = [], simulation.world.log
    rows = {row.id: row for row in _rows(simulation, life, life.parts.host.units.tables.outbox)}
    found: set[str] = set()
    owned = [topic for topic in topics(life.service) if topic.name.split(".")[0] == life.service.name]
    for topic in owned:
        highest: dict[str, int] = {}
        last: dict[str, int] = {}
        for record in records(log, topic.name):
            id, revision = record.headers["ce_id"], int(record.headers["revision"])
            found.add(id)
            if id not in rows:
                wrong.append(f"{record.key} revision {revision} was published and never committed")
            elif bytes(rows[id].payload) != record.value:
                wrong.append(f"{record.key} revision {revision} was published with another payload")
            if topic.kind is Kind.STATE:
                if revision > highest.get(record.key, 0) + 1:
                    wrong.append(f"{record.key} revision {revision} was published before the one below it")
                highest[record.key], last[record.key] = max(revision, highest.get(record.key, 0)), revision
        stale = [name for name, revision in last.items() if revision < highest[name]]
        if stale and not simulation.zombie_died:
            wrong.append(f"{stale[0]}: the last snapshot in the log is not the newest, compaction would keep it")
    lost = [row for id, row in rows.items() if id not in found]
    wrong += [f"{row.subject} revision {row.revision} was committed and never published" for row in lost]
    return wrong


def _folded(simulation: "Simulation", life: "Life", tables: dict[str, Snapshot]) -> list[str]:
    wrong = []
    for resource in life.service.resources:
        rows = {
            row.name: Snapshot(int(row.revision), bytes(row.body)) for row in _rows(simulation, life, resource.table)
        }
        tables |= rows
        if is_event(resource.message):
            folded = fold(simulation.world.log, [event_type(resource.message).topic])
            if not resource.events_are_whole:
                folded, rows = _revisions(folded), _revisions(rows)
            if folded != rows:
                differ = sorted(name for name in folded.keys() | rows.keys() if folded.get(name) != rows.get(name))
                wrong.append(f"{differ[0]}: the table differs from the fold of its snapshots")
    return wrong


def _revisions(snapshots: dict[str, Snapshot]) -> dict[str, Snapshot]:
    """The same without their bodies: an event of these has only what changed."""
    return {name: Snapshot(each.revision, b"") for name, each in snapshots.items()}


def _handled(simulation: "Simulation", life: "Life") -> list[str]:
    """Each event was handled once (a snapshot at most, its newest once); each task was finished once."""
    wrong, name = [], life.service.name
    written = simulation.peek(name, lambda unit: effects.read(unit.tx, life.effects))
    counts = Counter((effect.group, effect.id) for effect in written)
    wrong += [f"{group} took {id} {count} times" for (group, id), count in counts.items() if count > 1]
    dead = {row.id: row.subject for row in _rows(simulation, life, life.parts.host.units.tables.dead_letters)}
    for consumed in life.service.consumes:
        kind = event_type(consumed.message)
        if kind.kind is Kind.FACT:
            for record in records(simulation.world.log, kind.topic):
                id = record.headers["ce_id"]
                if record.headers["ce_type"] == kind.type and (name, id) not in counts and id not in dead:
                    wrong.append(f"{name} never took {id} of {record.key}")
            continue
        seen: dict[str, int] = {}
        for effect in (each for each in written if each.revision):
            before = seen.get(effect.subject, 0)
            if effect.revision <= before:
                wrong.append(f"{name} took {effect.subject} revision {effect.revision} after {before}")
            seen[effect.subject] = max(effect.revision, before)
        for subject, newest in fold(simulation.world.log, [kind.topic]).items():
            if seen.get(subject) != newest.revision and subject not in dead.values():
                wrong.append(f"{name} took {subject} at revision {seen.get(subject)}, the newest is {newest.revision}")
    return wrong
