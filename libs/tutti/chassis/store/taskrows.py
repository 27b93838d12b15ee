"""The rows of `tasks`: one function a transition, each fenced by the epoch of the claim.

Promises: a task is held by one claim at a time; a transition of a lost claim raises FencedOff and writes nothing.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, Table, bindparam, delete, func, insert, literal, select, update

from tutti.backbone.database import Conflict
from tutti.chassis.errors import FencedOff
from tutti.chassis.identity.principal import Principal
from tutti.chassis.progress import Progress
from tutti.chassis.store import origins
from tutti.chassis.store.leases import Observer
from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import micros

if TYPE_CHECKING:
    from tutti.chassis.store.unit import Unit


MAX_LAPSES = 20


class TaskState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_ENDED = tuple(state.value for state in (TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED))


@dataclass(frozen=True)
class Task:
    """`attempt` counts claims, from 1; `failures` those that count against the kind's attempts; `epoch` fences.
    `principal`: who asked for it, if a person did."""

    id: str
    kind: str
    resource: str
    payload: bytes
    attempt: int
    epoch: int
    failures: int
    lapses: int
    request_id: str
    traceparent: str
    principal: Principal | None


def enqueue(unit: "Unit", id: str, kind: str, resource: str, payload: bytes) -> str:
    tasks = unit.tables.tasks
    if unit.tx.execute(select(tasks.c.id).where(tasks.c.id == id)).first() is not None:
        return id
    now = micros(unit.now)
    row = {
        "id": id,
        "kind": kind,
        "resource": resource,
        "payload": payload,
        "request_id": unit.cause.request_id,
        "traceparent": unit.cause.traceparent,
        "state": TaskState.WAITING.value,
        "holder": "",
        "due_at": now,
        "made_at": now,
        "reason": "",
        **dict.fromkeys(("attempt", "failures", "lapses", "epoch", "renewals", "ttl", "expires_at"), 0),
    }

    def insert_both() -> None:
        unit.tx.execute(insert(tasks), row)
        origins.keep(unit, origins.of_task(id))

    with contextlib.suppress(Conflict):
        unit.tx.savepoint(insert_both)
    return id


def claim(unit: "Unit", kinds: Iterable[str], holder: str, ttl: float) -> Task | None:
    """The task that is due for longest, now held by `holder`."""
    tasks = unit.tables.tasks
    row = unit.tx.execute(_due(tasks), {"now": micros(unit.now), "kinds": sorted(kinds)}).first()
    if row is None:
        return None
    task = _task(unit, row, epoch=row.epoch + 1, attempt=row.attempt + 1)
    unit.tx.execute(
        update(tasks)
        .where(tasks.c.id == task.id)
        .values(
            state=TaskState.RUNNING.value, epoch=task.epoch, attempt=task.attempt, holder=holder, **_until(unit, ttl)
        )
    )
    return task


def seconds_until_due(unit: "Unit", kinds: Iterable[str]) -> float:
    """Return how long none of the tasks that wait is due; infinite where none waits."""
    first = unit.tx.execute(_first_due(unit.tables.tasks), {"kinds": sorted(kinds)}).scalar()
    return float("inf") if first is None else max(0.0, (first - micros(unit.now)) / 1_000_000)


def renew(unit: "Unit", task: Task, ttl: float) -> None:
    """Raises FencedOff when the claim was lost or the task cancelled."""
    _move(unit, task, renewals=unit.tables.tasks.c.renewals + 1, **_until(unit, ttl))


def tell(unit: "Unit", task: Task, said: Progress) -> None:
    """Write down how far a task is: for people, so no fence is needed."""
    table = unit.tables.task_progress
    values = {"done": said.done, "total": said.total, "unit": said.unit}
    if unit.tx.execute(update(table).where(table.c.id == task.id).values(values)).rowcount:
        return
    row = {"id": task.id, "resource": task.resource, **values}
    with contextlib.suppress(Conflict):
        unit.tx.savepoint(lambda: unit.tx.execute(insert(table), row))


def told(unit: "Unit", resource: str) -> Progress | None:
    """The last reported progress of the running task of a resource."""
    tasks, table = unit.tables.tasks, unit.tables.task_progress
    row = unit.tx.execute(
        select(table.c.done, table.c.total, table.c.unit)
        .join(tasks, tasks.c.id == table.c.id)
        .where(table.c.resource == resource, tasks.c.state == TaskState.RUNNING.value)
    ).first()
    return None if row is None else Progress(int(row.done), int(row.total), row.unit)


def is_cancelled(unit: "Unit", task: Task) -> bool:
    tasks = unit.tables.tasks
    state = unit.tx.execute(select(tasks.c.state).where(tasks.c.id == task.id)).scalar()
    return bool(state == TaskState.CANCELLED.value)


def finish(unit: "Unit", task: Task) -> None:
    _move(unit, task, state=TaskState.DONE.value, reason="")


def give_up(unit: "Unit", task: Task, reason: str) -> None:
    _move(unit, task, state=TaskState.FAILED.value, reason=reason)


def postpone(unit: "Unit", task: Task, seconds: float, reason: str, *, counts: bool) -> None:
    """Back to waiting; `counts` spends an attempt."""
    _move(
        unit,
        task,
        state=TaskState.WAITING.value,
        due_at=micros(unit.now) + int(seconds * 1_000_000),
        reason=reason,
        failures=task.failures + counts,
    )


def cancel(unit: "Unit", resource: str) -> int:
    tasks = unit.tables.tasks
    changed = unit.tx.execute(
        update(tasks)
        .where(tasks.c.resource == resource, tasks.c.state.in_([TaskState.WAITING.value, TaskState.RUNNING.value]))
        .values(state=TaskState.CANCELLED.value)
    )
    return changed.rowcount


def lapsed(unit: "Unit", observer: Observer) -> list[Task]:
    """Running tasks whose holder was not heard of for its TTL."""
    tasks = unit.tables.tasks
    running = unit.tx.execute(_running(tasks)).all()
    observer.forget({row.id for row in running})
    gone = [row for row in running if observer.lapsed(unit, row.id, row)]
    return [_task(unit, row, epoch=row.epoch, attempt=row.attempt) for row in gone]


def release(unit: "Unit", task: Task) -> None:
    """Take a lapsed task from its holder."""
    unit.enqueued = True
    _move(unit, task, state=TaskState.WAITING.value, due_at=micros(unit.now), lapses=task.lapses + 1)


def vacate(unit: "Unit", *, of: str = "") -> None:
    """Release running tasks: for who knows that their holders are gone.

    All of them, since the database is the caller's alone, or those of holders of the instance `of`, since the caller is
    that instance now. Should one of these live all the same, it is fenced off as by any other claim. A task that took
    so many workers with it is left to the sweeper, which gives it up.
    """
    tasks = unit.tables.tasks
    theirs = (tasks.c.holder.startswith(f"{of}/", autoescape=True), tasks.c.lapses + 1 < MAX_LAPSES) if of else ()
    unit.tx.execute(
        update(tasks)
        .where(tasks.c.state == TaskState.RUNNING.value, *theirs)
        .values(
            state=TaskState.WAITING.value, epoch=tasks.c.epoch + 1, due_at=micros(unit.now), lapses=tasks.c.lapses + 1
        )
    )


def prune(unit: "Unit", before: datetime) -> int:
    """Delete tasks that ended and that were made, and last held, before then."""
    tasks, table, old = unit.tables.tasks, unit.tables.task_progress, micros(before)
    gone = (tasks.c.state.in_(_ENDED), tasks.c.made_at < old, tasks.c.expires_at < old)
    unit.tx.execute(delete(table).where(table.c.id.in_(select(tasks.c.id).where(*gone))))
    begun, names = unit.tables.origins, literal(origins.TASKS) + tasks.c.id
    unit.tx.execute(delete(begun).where(begun.c.name.in_(select(names).where(*gone))))
    return unit.tx.execute(delete(tasks).where(*gone)).rowcount


@prepared
def _due(tasks: Table) -> Select[Any]:
    among = tasks.c.kind.in_(bindparam("kinds"))
    return (
        select(tasks)
        .where(tasks.c.state == TaskState.WAITING.value, tasks.c.due_at <= bindparam("now"), among)
        .order_by(tasks.c.due_at, tasks.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


@prepared
def _first_due(tasks: Table) -> Select[Any]:
    return select(func.min(tasks.c.due_at)).where(
        tasks.c.state == TaskState.WAITING.value, tasks.c.kind.in_(bindparam("kinds"))
    )


@prepared
def _running(tasks: Table) -> Select[Any]:
    return select(tasks).where(tasks.c.state == TaskState.RUNNING.value).order_by(tasks.c.id)


def _move(unit: "Unit", task: Task, **values: Any) -> None:
    tasks = unit.tables.tasks
    changed = unit.tx.execute(
        update(tasks)
        .where(tasks.c.id == task.id, tasks.c.epoch == task.epoch, tasks.c.state == TaskState.RUNNING.value)
        .values(**values)
    )
    if changed.rowcount != 1:
        raise FencedOff(f"the task {task.id} (epoch {task.epoch}) was taken by another worker or cancelled")


def _task(unit: "Unit", row: Any, *, epoch: int, attempt: int) -> Task:
    return Task(
        row.id,
        row.kind,
        row.resource,
        bytes(row.payload),
        attempt,
        epoch,
        int(row.failures),
        int(row.lapses),
        row.request_id,
        row.traceparent,
        origins.find(unit, origins.of_task(row.id)),
    )


def _until(unit: "Unit", ttl: float) -> dict[str, int]:
    span = int(ttl * 1_000_000)
    return {"ttl": span, "expires_at": micros(unit.now) + span}
