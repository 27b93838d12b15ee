import errno
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from sqlalchemy import MetaData, select

from tutti.backbone import Blobs, ManualClock, SeededRandomness
from tutti.backbone.blobs import BlobsUnavailable
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.chassis.config.memory import TOO_LITTLE
from tutti.chassis.config.sections import LifecycleSettings
from tutti.chassis.config.settings import Settings
from tutti.chassis.delivery import outbox
from tutti.chassis.errors import Cancelled, DeadlineExceeded, Refused, Unavailable
from tutti.chassis.identity.cause import Cause, caused_by, current_cause
from tutti.chassis.runtime.parts import Parts
from tutti.chassis.runtime.process import parts_of, prepare
from tutti.chassis.service import Home, Service, TaskKind
from tutti.chassis.store import taskrows
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.tasks import (
    SOLE_SECONDS,
    Finish,
    Pool,
    Retry,
    Task,
    TaskContext,
    TaskRenewer,
    TaskSweeper,
    TaskWorker,
    WorkFailed,
)
from tutti.chassis.telemetry import current_traceparent, span
from tutti.chassis.work.reconciler import ATTEMPTS, Reconciler, Trouble

TTL = 15.0


class Inline:
    def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)


@dataclass
class Bench:
    """A host with nothing but a database, and one kind of work."""

    blobs: Blobs
    service: str = "bench"
    clock: ManualClock = field(default_factory=ManualClock)
    randomness: SeededRandomness = field(default_factory=lambda: SeededRandomness(1))
    pool: Pool = field(default_factory=Inline)
    metadata: MetaData = field(default_factory=MetaData)
    work: Callable[[TaskContext], None] = lambda context: None
    values: dict[str, Any] = field(default_factory=dict)  # of the settings of the service
    failed: list[str] = field(default_factory=list)
    finished: int = 0

    def __post_init__(self) -> None:
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.units = Units(self.database, self.service, self.metadata, clock=self.clock, randomness=self.randomness)
        self.database.create(self.metadata)
        self.kinds = {"work": TaskKind("work", self._run, self._failed, attempts=2)}

    def channel(self, service: str) -> grpc.Channel:
        raise NotImplementedError(service)

    def home(self) -> Home:
        raise AssertionError("no program is started here")

    def settings(self, model: type[Any]) -> Any:
        return model.model_validate(self.values)

    def worker(self, holder: str = "a") -> TaskWorker:
        return TaskWorker(self, self.kinds, holder=holder, ttl=TTL)

    def sweeper(self) -> TaskSweeper:
        return TaskSweeper(self, self.kinds)

    def prepared(self) -> Parts:
        """Return the parts of a service with this work, on a log in memory."""
        service = Service(name=self.service, resources=[], tasks=list(self.kinds.values()))
        log = EmbeddedEventLog(None, clock=self.clock, inline=True)
        parts = parts_of(service, self, log, Settings(), instance="a", incarnation="1")
        prepare(parts, "a")
        return parts

    def enqueue(self) -> None:
        self.units.run(lambda unit: unit.enqueue("work", "things/a", id="t"))

    def state(self) -> str:
        tasks = self.units.tables.tasks
        return str(self.units.run(lambda unit: unit.tx.execute(select(tasks.c.state)).scalar_one()))

    def _run(self, context: TaskContext) -> Finish:
        self.work(context)

        def finish(unit: Unit) -> None:
            unit.on_commit(self._count)

        return finish

    def _count(self) -> None:
        self.finished += 1

    def _failed(self, unit: Unit, task: Task, reason: str) -> None:
        unit.on_commit(lambda: self.failed.append(reason))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(EmbeddedBlobs(tmp_path))
    yield made
    made.database.close()


def raising(error: Exception) -> Callable[[TaskContext], None]:
    def work(context: TaskContext) -> None:
        raise error

    return work


def test_a_task_that_raises_is_tried_again_until_its_attempts_are_spent(bench: Bench) -> None:
    bench.work = raising(ValueError("odd"))
    bench.enqueue()
    worker = bench.worker()
    assert worker.step()
    assert not worker.step()
    bench.clock.advance(60)
    assert worker.step()
    assert (bench.state(), bench.failed) == ("failed", ["ValueError: odd"])


def test_memory_that_runs_out_is_named_with_what_to_do(bench: Bench) -> None:
    def allocate(context: TaskContext) -> None:
        bytearray(1 << 60)

    bench.work = allocate
    bench.enqueue()
    worker = bench.worker()
    for _ in range(2):
        assert worker.step()
        bench.clock.advance(60)
    assert (bench.state(), bench.failed) == ("failed", [f"MemoryError; {TOO_LITTLE}"])


@pytest.mark.parametrize("error", [BlobsUnavailable("down"), Retry("not yet", after=2), OSError(errno.ENOSPC, "full")])
def test_an_outage_and_a_retry_spend_no_attempt(bench: Bench, error: Exception) -> None:
    bench.work = raising(error)
    bench.enqueue()
    worker = bench.worker()
    for _ in range(5):
        assert worker.step()
        bench.clock.advance(60)
    bench.work = lambda context: None
    assert worker.step()
    assert (bench.state(), bench.finished, bench.failed) == ("done", 1, [])


def test_work_that_cannot_succeed_fails_at_once(bench: Bench) -> None:
    bench.work = raising(WorkFailed("the folder is empty"))
    bench.enqueue()
    bench.worker().step()
    assert (bench.state(), bench.failed) == ("failed", ["the folder is empty"])


def test_the_only_process_of_a_database_looks_for_tasks_when_it_wakes_or_one_is_due(bench: Bench) -> None:
    parts = bench.prepared()
    (worker,) = (loop for loop in parts.loops if isinstance(loop, TaskWorker))
    assert not worker.step()
    assert worker.interval == parts.relay.interval == SOLE_SECONDS

    def later(context: TaskContext) -> None:
        raise Retry("not yet", after=3.0)

    bench.work = later
    bench.enqueue()
    assert worker.woken.is_set()
    assert worker.step()
    assert not worker.step()
    assert worker.interval == pytest.approx(3.0)
    bench.clock.advance(worker.interval)
    assert worker.step()


def test_a_task_that_is_taken_back_wakes_the_workers(bench: Bench) -> None:
    parts = bench.prepared()
    bench.enqueue()
    (worker,) = (loop for loop in parts.loops if isinstance(loop, TaskWorker))
    bench.units.run(lambda unit: taskrows.claim(unit, bench.kinds, "a worker that is gone", TTL))
    worker.woken.clear()
    sweeper = bench.sweeper()
    assert not sweeper.step()
    bench.clock.advance(TTL)
    assert sweeper.step()
    assert worker.woken.is_set()


def test_events_that_are_to_be_sent_again_wake_the_relay(bench: Bench) -> None:
    parts = bench.prepared()
    parts.relay.woken.clear()
    bench.units.run(lambda unit: outbox.republish(unit, bench.clock.now()))
    assert parts.relay.woken.is_set()


def test_a_lost_worker_is_replaced_and_cannot_finish(bench: Bench) -> None:
    sweeper, second = bench.sweeper(), bench.worker("b")

    def stand_still(context: TaskContext) -> None:
        bench.work = lambda context: None
        sweeper.step()
        bench.clock.advance(TTL + 1)
        assert sweeper.step()
        assert second.step()

    bench.work = stand_still
    bench.enqueue()
    bench.worker().step()
    assert (bench.state(), bench.finished) == ("done", 1)


def test_a_renewed_task_is_not_swept(bench: Bench) -> None:
    sweeper, worker = bench.sweeper(), bench.worker()
    renewer = TaskRenewer("bench", lambda: [worker], ttl=TTL)

    def work_long(context: TaskContext) -> None:
        for _ in range(5):
            bench.clock.advance(TTL / 2)
            renewer.step()
            assert not sweeper.step()

    bench.work = work_long
    bench.enqueue()
    worker.step()
    assert bench.finished == 1


def test_work_is_an_effect_of_what_its_task_was_enqueued_for(bench: Bench) -> None:
    causes: list[Cause] = []
    bench.work = lambda context: causes.append(current_cause())
    with span("a call") as call, caused_by(Cause("mine")):
        bench.enqueue()
    bench.worker().step()
    assert causes[0].request_id == "mine"
    assert causes[0].traceparent.split("-")[1] == format(call.get_span_context().trace_id, "032x")


def test_a_cancelled_task_is_told_and_has_no_effect(bench: Bench) -> None:
    told: list[str] = []

    def work(context: TaskContext) -> None:
        bench.units.run(lambda unit: unit.cancel_tasks("things/a"))
        bench.clock.advance(TTL)
        try:
            context.check()
        except Cancelled as error:
            told.append(error.reason)
            raise

    bench.work = work
    bench.enqueue()
    bench.worker().step()
    assert (told, bench.state(), bench.finished, bench.failed) == (["CANCELLED"], "cancelled", 0, [])


def ignore(unit: Unit, name: str, trouble: Trouble | None) -> None:
    """The `tell` of a test that looks at something else."""


def test_a_reconciler_looks_at_what_is_open_and_at_what_it_is_woken_for(bench: Bench) -> None:
    calls: list[str] = []
    answers: dict[str, list[bool | float | None]] = {"a": [True, 5.0, None]}

    def advance(name: str) -> bool | float | None:
        calls.append(name)
        return answers.get(name, [None]).pop(0) if answers.get(name) else None

    reconciler = Reconciler("things", bench, open=lambda unit: ["a"], advance=advance, tell=ignore, interval=30)

    def drain() -> list[str]:
        calls.clear()
        while reconciler.step():
            pass
        return list(calls)

    assert drain() == ["a", "a"]
    assert drain() == []
    bench.clock.advance(5)
    assert drain() == ["a"]
    reconciler.wake("b")
    assert reconciler.woken.is_set()
    assert drain() == ["b"]
    bench.clock.advance(30)
    assert drain() == ["a"]


def test_what_a_look_found_belongs_to_the_trace_of_the_call_that_wakes_it_later(bench: Bench) -> None:
    traces: list[str] = []
    reconciler = Reconciler(
        "things",
        bench,
        open=lambda unit: ["a"],
        advance=lambda name: traces.append(current_traceparent().split("-")[1]),
        tell=ignore,
    )
    reconciler.step()
    with span("a call") as call:
        reconciler.wake("a")
    with span("another call"):
        reconciler.wake("a")
    reconciler.step()
    assert traces[1] == format(call.get_span_context().trace_id, "032x")
    assert traces[0] != traces[1]


def test_how_often_a_reconciler_looks_is_a_setting(bench: Bench) -> None:
    calls: list[str] = []
    reconciler = Reconciler("things", bench, open=lambda unit: ["a"], advance=calls.append, tell=ignore)
    settings = Settings(lifecycle=LifecycleSettings(reconcile_seconds=7))
    service = Service(name="bench", resources=[], loops=[reconciler])
    with closing(EmbeddedEventLog(None, clock=bench.clock)) as log:
        parts_of(service, bench, log, settings, instance="a", incarnation="1")
    reconciler.step()
    bench.clock.advance(6)
    assert not reconciler.step()
    bench.clock.advance(1)
    assert reconciler.step()


def test_what_a_reconciler_does_is_an_effect_of_what_woke_it_first(bench: Bench) -> None:
    causes: list[Cause] = []
    reconciler = Reconciler(
        "things", bench, open=lambda unit: ["a"], advance=lambda name: causes.append(current_cause()), tell=ignore
    )

    def woken() -> str:
        with span("a call") as call:
            bench.units.run(lambda unit: unit.on_commit(lambda: reconciler.wake("a")))
        while reconciler.step():
            pass
        return format(call.get_span_context().trace_id, "032x")

    with caused_by(Cause("mine")):
        first = woken()
    woken()
    bench.clock.advance(30)
    reconciler.step()
    assert len(causes) == 3
    assert {(cause.request_id, cause.traceparent.split("-")[1]) for cause in causes} == {("mine", first)}


def test_a_reconciler_backs_off_in_an_outage_and_leaves_a_defect_to_the_interval(bench: Bench) -> None:
    errors: list[Exception] = [BlobsUnavailable("down"), ValueError("defect")]

    def advance(name: str) -> None:
        if errors:
            raise errors.pop(0)

    reconciler = Reconciler("things", bench, open=lambda unit: ["a"], advance=advance, tell=ignore, interval=30)
    assert reconciler.step()
    assert not reconciler.step()
    bench.clock.advance(1)
    assert reconciler.step()
    bench.clock.advance(10)
    assert not reconciler.step()
    bench.clock.advance(20)
    assert reconciler.step()
    assert not errors


@dataclass
class Stubborn:
    """Cannot be advanced while `error` is set; `told` is what its reconciler told, in order."""

    error: Exception | None
    told: list[Trouble | None] = field(default_factory=list)

    def advance(self, name: str) -> None:
        if self.error is not None:
            raise self.error

    def tell(self, unit: Unit, name: str, trouble: Trouble | None) -> None:
        self.told.append(trouble)

    def reconciler(self, bench: Bench) -> Reconciler:
        return Reconciler("things", bench, open=lambda unit: ["a"], advance=self.advance, tell=self.tell, interval=30)


def test_why_a_resource_is_not_advanced_is_told_and_that_it_goes_on(bench: Bench) -> None:
    stubborn = Stubborn(ValueError("odd"))
    reconciler = stubborn.reconciler(bench)
    reconciler.step()
    stubborn.error = Refused("NO", "the owner refuses it")
    bench.clock.advance(30)
    reconciler.step()
    stubborn.error = None
    for _ in range(2):
        bench.clock.advance(30)
        reconciler.step()
    first, second, *rest = stubborn.told
    assert (first, second) == (
        Trouble("retrying: ValueError: odd", final=False),
        Trouble("retrying: the owner refuses it", final=False),
    )
    assert rest == [None]


def test_a_defect_is_final_after_some_intervals_however_often_it_is_woken(bench: Bench) -> None:
    stubborn = Stubborn(ValueError("odd"))
    reconciler = stubborn.reconciler(bench)
    for interval in range(ATTEMPTS):
        assert interval == 0 or not stubborn.told[-1].final  # type: ignore[union-attr]
        for _ in range(5):
            reconciler.wake("a")
            reconciler.step()
        bench.clock.advance(30)
    assert stubborn.told[-1] == Trouble(f"gave up after {ATTEMPTS} attempts: ValueError: odd", final=True)


@pytest.mark.parametrize("error", [Unavailable("away"), DeadlineExceeded("slow"), BlobsUnavailable("down")])
def test_an_outage_is_told_and_is_never_final(bench: Bench, error: Exception) -> None:
    stubborn = Stubborn(error)
    reconciler = stubborn.reconciler(bench)
    for _ in range(1000):
        bench.clock.advance(30)
        reconciler.step()
    assert len(stubborn.told) >= 1000
    assert {trouble.final for trouble in stubborn.told if trouble} == {False}
    assert stubborn.told[-1].reason == f"retrying: {error}"  # type: ignore[union-attr]
    stubborn.error = ValueError("odd")  # the control: what failed before does not bring the end nearer
    bench.clock.advance(30)
    reconciler.step()
    assert not stubborn.told[-1].final  # type: ignore[union-attr]
