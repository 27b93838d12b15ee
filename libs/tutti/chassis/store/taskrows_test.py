"""The rows of tasks: each transition happens under the claim that holds the task, and touches no other task."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import MetaData, select, update
from sqlalchemy.dialects import postgresql

from tutti.backbone import ManualClock, SeededRandomness
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import FencedOff
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import DEFAULT_TENANT, Method, Principal
from tutti.chassis.progress import Progress
from tutti.chassis.store import taskrows
from tutti.chassis.store.leases import Observer
from tutti.chassis.store.tables import micros
from tutti.chassis.store.taskrows import Task
from tutti.chassis.store.unit import Unit, Units

TTL = 15.0
PERSON = Principal("users/ada", frozenset({Role.OPERATOR}), DEFAULT_TENANT, Method.SESSION)
T = TypeVar("T")


class Bench:
    """A database with tasks, and a clock that is moved by hand."""

    def __init__(self) -> None:
        metadata, self.clock = MetaData(), ManualClock()
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.units = Units(self.database, "bench", metadata, clock=self.clock, randomness=SeededRandomness(1))
        self.database.create(metadata)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def run(self, transition: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return self.units.run(lambda unit: transition(unit, *args, **kwargs))

    def add(self, *ids: str, kind: str = "work", resource: str = "things/a") -> None:
        for id in ids:
            self.run(taskrows.enqueue, id, kind, resource, b"payload")

    def next(self, *kinds: str, holder: str = "a/1") -> Task | None:
        """Claim the task that is due."""
        return self.run(taskrows.claim, kinds or ["work"], holder, TTL)

    def claim(self, holder: str = "a/1") -> Task:
        task = self.next(holder=holder)
        assert task is not None
        return task

    def row(self, id: str) -> Any:
        tasks = self.units.tables.tasks
        return self.units.run(lambda unit: unit.tx.execute(select(tasks).where(tasks.c.id == id)).one())

    def states(self) -> dict[str, str]:
        tasks = self.units.tables.tasks
        rows = select(tasks.c.id, tasks.c.state)
        return self.units.run(lambda unit: {row.id: row.state for row in unit.tx.execute(rows).all()})

    def kept(self) -> tuple[set[str], set[str]]:
        """The tasks of which a progress, and those of which an origin is kept."""
        progress, begun = self.units.tables.task_progress, self.units.tables.origins
        return self.units.run(
            lambda unit: (
                set(unit.tx.execute(select(progress.c.id)).scalars()),
                set(unit.tx.execute(select(begun.c.name)).scalars()),
            )
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.database.close()


def test_a_task_is_claimed_as_it_was_enqueued(bench: Bench) -> None:
    with caused_by(Cause("request", "trace", PERSON)):
        bench.add("t")
    task = bench.claim()
    assert (task.id, task.kind, task.resource, task.payload) == ("t", "work", "things/a", b"payload")
    assert (task.attempt, task.epoch, task.failures, task.lapses) == (1, 1, 0, 0)
    assert (task.request_id, task.traceparent) == ("request", "trace")
    assert task.principal is not None
    assert (task.principal.user, task.principal.roles) == ("users/ada", frozenset())
    row = bench.row("t")
    assert (row.state, row.holder, row.renewals) == ("running", "a/1", 0)
    assert (row.ttl, row.expires_at) == (15_000_000, micros(bench.now) + 15_000_000)


def test_the_same_task_again_changes_nothing(bench: Bench) -> None:
    bench.add("first", "second")
    before = bench.row("second")
    bench.clock.advance(1)
    assert bench.run(taskrows.enqueue, "second", "other", "things/b", b"other") == "second"
    assert bench.row("second") == before
    assert bench.states() == {"first": "waiting", "second": "waiting"}


def test_the_task_that_is_due_for_longest_is_claimed_first_and_only_by_its_kind(bench: Bench) -> None:
    bench.add("z", "b")
    bench.clock.advance(1)
    bench.add("a")
    bench.add("other", kind="other")
    assert [bench.claim().id for _ in range(3)] == ["b", "z", "a"]
    assert bench.next() is None
    claimed = bench.next("other", "work")
    assert claimed is not None
    assert claimed.id == "other"


def test_a_server_locks_one_task_and_skips_those_that_others_lock(bench: Bench) -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    statement = taskrows._due(bench.units.tables.tasks).compile(dialect=dialect)
    assert str(statement).endswith("LIMIT %(param_1)s FOR UPDATE SKIP LOCKED")
    assert statement.params["param_1"] == 1


def test_a_renewed_claim_lasts_for_another_ttl(bench: Bench) -> None:
    bench.add("t")
    task = bench.claim()
    bench.clock.advance(10)
    bench.run(taskrows.renew, task, 20.0)
    row = bench.row("t")
    assert (row.renewals, row.ttl, row.expires_at) == (1, 20_000_000, micros(bench.now) + 20_000_000)


@pytest.mark.parametrize(
    ("transition", "state"),
    [
        (taskrows.finish, "done"),
        (lambda unit, task: taskrows.give_up(unit, task, "odd"), "failed"),
        (lambda unit, task: taskrows.postpone(unit, task, 1.0, "odd", counts=True), "waiting"),
        (taskrows.release, "waiting"),
        (lambda unit, task: taskrows.renew(unit, task, TTL), "running"),
    ],
)
def test_a_transition_moves_the_claimed_task_alone_and_a_lost_claim_nothing(
    bench: Bench, transition: Callable[[Unit, Task], None], state: str
) -> None:
    bench.add("first", "second")
    first, second = bench.claim(), bench.claim()
    bench.run(transition, first)
    assert bench.states() == {"first": state, "second": "running"}
    bench.run(taskrows.vacate)
    with pytest.raises(FencedOff, match=r"second \(epoch 1\)"):
        bench.run(transition, second)
    assert bench.states()["second"] == "waiting"
    while bench.next() is not None:
        pass
    with pytest.raises(FencedOff):
        bench.run(transition, second)
    assert bench.states()["second"] == "running"


def test_a_postponed_task_waits_that_long_and_may_spend_an_attempt(bench: Bench) -> None:
    bench.add("t")
    bench.run(taskrows.postpone, bench.claim(), 100.0, "odd", counts=True)
    row = bench.row("t")
    assert (row.reason, row.failures, row.due_at) == ("odd", 1, micros(bench.now) + 100_000_000)
    bench.clock.advance(99)
    assert bench.next() is None
    bench.clock.advance(1)
    again = bench.claim()
    assert (again.epoch, again.attempt, again.failures) == (2, 2, 1)
    bench.run(taskrows.postpone, again, 0.0, "not yet", counts=False)
    assert bench.claim().failures == 1


def test_the_time_until_the_next_task_is_due_is_that_of_those_that_wait(bench: Bench) -> None:
    assert bench.run(taskrows.seconds_until_due, ["work"]) == float("inf")
    bench.add("later", "running")
    bench.run(taskrows.postpone, bench.claim(), 7.25, "not yet", counts=False)
    bench.claim()
    assert bench.run(taskrows.seconds_until_due, ["work"]) == 7.25
    assert bench.run(taskrows.seconds_until_due, ["other"]) == float("inf")
    bench.clock.advance(7)
    assert bench.run(taskrows.seconds_until_due, ["other", "work"]) == 0.25
    bench.clock.advance(60)
    assert bench.run(taskrows.seconds_until_due, ["work"]) == 0


def test_progress_is_told_of_the_running_task_of_a_resource(bench: Bench) -> None:
    bench.add("a")
    bench.add("b", resource="things/b")
    first, second = bench.claim(), bench.claim()
    for done in (1, 2):
        bench.run(taskrows.tell, first, Progress(done, 9, "bytes"))
        bench.run(taskrows.tell, second, Progress(10 * done, 90, "bytes"))
    assert bench.run(taskrows.told, "things/a") == Progress(2, 9, "bytes")
    assert bench.run(taskrows.told, "things/b") == Progress(20, 90, "bytes")
    bench.run(taskrows.finish, first)
    assert bench.run(taskrows.told, "things/a") is None


def test_the_tasks_of_a_resource_that_have_not_ended_are_cancelled(bench: Bench) -> None:
    bench.add("done", "running", "waiting")
    bench.add("z", resource="things/b")
    tasks = [bench.claim() for _ in range(2)]
    bench.run(taskrows.finish, tasks[0])
    assert bench.run(taskrows.cancel, "things/a") == 2
    assert bench.states() == {"done": "done", "running": "cancelled", "waiting": "cancelled", "z": "waiting"}
    assert [bench.run(taskrows.is_cancelled, task) for task in tasks] == [False, True]


def test_a_task_whose_holder_is_silent_for_its_ttl_is_released_and_counted(bench: Bench) -> None:
    bench.add("silent", "waiting")
    task, observer = bench.claim(), Observer()
    assert bench.run(taskrows.lapsed, observer) == []
    bench.clock.advance(TTL)
    (lapsed,) = bench.run(taskrows.lapsed, observer)
    assert lapsed == task
    woken = list[str]()
    bench.units.on_enqueue.append(lambda: woken.append("workers"))
    bench.run(taskrows.release, lapsed)
    assert woken == ["workers"]
    assert (bench.row("silent").lapses, bench.row("silent").due_at) == (1, micros(bench.now))
    bench.claim()
    assert (again := bench.claim()).lapses == 1
    assert (again.epoch, again.attempt) == (2, 2)


def test_the_tasks_of_an_instance_that_starts_again_are_free_and_no_others(bench: Bench) -> None:
    bench.add("1", "2", "3")
    for holder in ("a_b/1", "axb/1", "a_b_c/1"):
        bench.claim(holder)
    bench.run(taskrows.vacate, of="a_b")
    assert bench.states() == {"1": "waiting", "2": "running", "3": "running"}


def test_a_task_that_lost_twenty_workers_is_left_to_the_sweeper(bench: Bench) -> None:
    bench.add("t")
    for lapses in range(19):
        task = bench.claim()
        assert (task.epoch, task.lapses) == (2 * lapses + 1, lapses)
        bench.run(taskrows.vacate, of="a")
    last = bench.claim()
    bench.run(taskrows.vacate, of="a")
    assert bench.states() == {"t": "running"}
    bench.run(taskrows.finish, last)


def test_a_database_of_one_process_vacates_every_running_task(bench: Bench) -> None:
    bench.add("done", "running", "waiting")
    bench.run(taskrows.finish, bench.claim())
    bench.claim("b/1")
    tasks = bench.units.tables.tasks
    bench.units.run(lambda unit: unit.tx.execute(update(tasks).values(lapses=taskrows.MAX_LAPSES)))
    bench.clock.advance(1)
    bench.run(taskrows.vacate)
    assert bench.states() == {"done": "done", "running": "waiting", "waiting": "waiting"}
    row = bench.row("running")
    assert (row.epoch, row.lapses, row.due_at) == (2, taskrows.MAX_LAPSES + 1, micros(bench.now))


MOMENT = timedelta(microseconds=1)


def test_a_task_that_ended_is_forgotten_with_all_that_was_kept_of_it(bench: Bench) -> None:
    with caused_by(Cause("request", "", PERSON)):
        bench.add("a", "b")
    tasks = [bench.claim() for _ in range(2)]
    for task in tasks:
        bench.run(taskrows.tell, task, Progress(1, 2, "bytes"))
    bench.run(taskrows.finish, tasks[0])
    held = bench.now + timedelta(seconds=TTL)
    assert bench.run(taskrows.prune, held) == 0
    assert bench.run(taskrows.prune, held + MOMENT) == 1
    assert bench.states() == {"b": "running"}
    assert bench.kept() == ({"b"}, {"tasks/b"})


def test_a_task_that_was_never_held_is_forgotten_by_when_it_was_made(bench: Bench) -> None:
    bench.add("t", "waiting")
    bench.run(taskrows.cancel, "things/a")
    bench.add("new", resource="things/b")
    assert bench.run(taskrows.prune, bench.now) == 0
    assert bench.run(taskrows.prune, bench.now + MOMENT) == 2
    assert bench.states() == {"new": "waiting"}
