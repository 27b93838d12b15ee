"""Tasks: long work as rows, claimed with an epoch, finished under it.

Promises: the effect of a task is committed once, in the transaction that marks it done, by the claim that still holds
it; an outage spends no attempt; a task whose holder was lost is claimed again; replicas share.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar, runtime_checkable

from tutti.backbone import Isolation
from tutti.backbone.backoff import Backoff
from tutti.chassis.config import memory
from tutti.chassis.config.diskspace import is_full
from tutti.chassis.errors import Cancelled, FencedOff, is_transient
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.progress import Progress
from tutti.chassis.store import taskrows
from tutti.chassis.store.leases import Observer
from tutti.chassis.store.taskrows import Task
from tutti.chassis.telemetry import span_from

if TYPE_CHECKING:
    from tutti.chassis.service import Host, TaskKind
    from tutti.chassis.store.unit import Unit

__all__ = ["Finish", "Pool", "Retry", "Task", "TaskContext", "TaskRenewer", "TaskSweeper", "TaskWorker", "WorkFailed"]

T = TypeVar("T")
P = ParamSpec("P")
Finish = Callable[["Unit"], None]
BACKOFF = Backoff(1.0, 60.0)
TELL_SECONDS = 1.0
SOLE_SECONDS = 10.0
"""Between two looks for tasks by the only process of a database: whatever waits there woke its worker."""
OUTAGE_BACKOFF = Backoff(1.0, 10.0)
"""Seconds until what passes, an outage or a full disk, is looked at again."""
_log = logging.getLogger(__name__)


class Pool(Protocol):
    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a top-level picklable function elsewhere and wait for it; inline in simulation."""
        ...


class WorkFailed(Exception):
    """No attempt can succeed; `reason` is recorded and shown to people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """Not now: try again after so many seconds. Spends no attempt."""

    def __init__(self, reason: str, after: float = 1.0) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


@runtime_checkable
class CancellablePool(Pool, Protocol):
    """A pool that can end a function which nobody waits for any more, and hears how far one is."""

    @property
    def resident(self) -> "CancellablePool":
        """The one process whose memory is kept from call to call."""
        ...

    def run_until(self, cancelled: Callable[[], bool], fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    def watch(
        self,
        cancelled: Callable[[], bool],
        hear: Callable[[Progress], None],
        fn: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...


class TaskContext:
    """The context of `run`. Long work calls `check()` now and then."""

    def __init__(self, task: Task, host: "Host", worker: "TaskWorker") -> None:
        self.task, self.host = task, host
        self._worker = worker
        self._cancelled = self._lost = False
        self._renewed_at = host.clock.monotonic()
        self._told_at = float("-inf")

    def pool(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a top-level picklable function in the process pool; it is killed once the claim is lost."""
        return self._run(self.host.pool, fn, *args, **kwargs)

    def resident(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a top-level picklable function in the resident process, whose memory is kept from call to call.

        Once the claim is lost, the function ends where it next reports its progress.
        """
        pool = self.host.pool
        return self._run(pool.resident if isinstance(pool, CancellablePool) else pool, fn, *args, **kwargs)

    def _run(self, pool: Pool, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if isinstance(pool, CancellablePool):
            return pool.watch(lambda: self.over, self.tell, fn, *args, **kwargs)
        return pool.run(fn, *args, **kwargs)

    def tell(self, said: Progress) -> None:
        """Let people see how far the work is; that an outage keeps them from it harms nothing."""
        now = self.host.clock.monotonic()
        if now - self._told_at < TELL_SECONDS:
            return
        self._told_at = now
        try:
            self.host.units.run(lambda unit: taskrows.tell(unit, self.task, said), isolation=Isolation.READ_COMMITTED)
        except Exception as error:
            if not is_transient(error):
                raise
            _log.debug("%s: its progress is not told: %s", self.task.resource, error)

    def cancelled(self) -> bool:
        """True if no result of further computation can be recorded."""
        if not self.over and self.host.clock.monotonic() - self._renewed_at >= self._worker.ttl / 3:
            self.renew()
        return self.over

    def check(self) -> None:
        """Raises Cancelled or FencedOff: stop."""
        if self.cancelled():
            if self._cancelled:
                raise Cancelled(f"the task {self.task.id} of {self.task.resource} was cancelled")
            raise FencedOff(f"the task {self.task.id} (epoch {self.task.epoch}) was taken by another worker")

    @property
    def over(self) -> bool:
        """True if the claim is known to be lost."""
        return self._cancelled or self._lost

    def renew(self) -> None:
        """Keep the claim; called by the renewer while the work runs."""
        renewed_at = self.host.clock.monotonic()

        def work(unit: "Unit") -> tuple[bool, bool]:
            if taskrows.is_cancelled(unit, self.task):
                return True, False
            try:
                unit.savepoint(lambda: taskrows.renew(unit, self.task, self._worker.ttl))
            except FencedOff:
                return False, True
            return False, False

        self._cancelled, self._lost = self.host.units.run(work, isolation=Isolation.READ_COMMITTED)
        self._renewed_at = renewed_at


class TaskWorker:
    """A Loop that claims one task a step and works on it. `holder` is unique among the workers of the database."""

    context: type[TaskContext] = TaskContext

    patient = True

    def __init__(
        self, host: "Host", kinds: Mapping[str, "TaskKind"], *, holder: str, ttl: float = 15.0, interval: float = 1.0
    ) -> None:
        self.name = f"{host.service} worker {'+'.join(sorted(kinds))}"
        self.interval, self.ttl = interval, ttl
        self.woken = threading.Event()
        self.sole = False
        """No other process can have this database: tasks come from this one, which wakes the worker."""
        self.running: TaskContext | None = None
        self._host, self._kinds, self._holder = host, kinds, holder

    def step(self) -> bool:
        task, wait = self._host.units.run(self._claim, isolation=Isolation.READ_COMMITTED)
        if self.sole:
            self.interval = wait
        if task is None:
            return False
        context = self.context(task, self._host, self)
        self.running = context
        try:
            cause = Cause(task.request_id, principal=task.principal)
            with caused_by(cause), span_from(task.traceparent, f"{self.name} on {task.resource}"):
                self._work(context, self._kinds[task.kind])
        finally:
            self.running = None
        return True

    def _claim(self, unit: "Unit") -> tuple[Task | None, float]:
        """Claim the next task; without one, return the seconds until one is due."""
        task = taskrows.claim(unit, self._kinds, self._holder, self.ttl)
        if task is not None or not self.sole:
            return task, 0.0
        return None, min(taskrows.seconds_until_due(unit, self._kinds), SOLE_SECONDS)

    def _work(self, context: TaskContext, kind: "TaskKind") -> None:
        task = context.task
        try:
            finish = kind.run(context)
            self.finish(task, finish)
        except Exception as error:
            if context.over:
                _log.info("%s: %s", self.name, error)
                return
            try:
                self._settle(task, kind, error)
            except FencedOff as lost:
                _log.info("%s: %s", self.name, lost)

    def finish(self, task: Task, finish: Finish) -> None:
        def work(unit: "Unit") -> None:
            taskrows.finish(unit, task)
            finish(unit)

        self._host.units.run(work)

    def _settle(self, task: Task, kind: "TaskKind", error: Exception) -> None:
        """Record what the error means for the task. Raises FencedOff when the claim was lost."""
        if isinstance(error, WorkFailed):
            self._give_up(task, kind, error.reason)
        elif isinstance(error, Retry):
            self._postpone(task, error.after, error.reason, counts=False)
        elif is_transient(error) or is_full(error):
            self._postpone(task, self._wait(OUTAGE_BACKOFF, task), str(error), counts=False)
        elif task.failures + 1 >= kind.attempts:
            _log.error("%s: %s failed permanently", self.name, task.resource, exc_info=error)
            self._give_up(task, kind, memory.named(error))
        else:
            _log.warning("%s: %s failed and will be retried", self.name, task.resource, exc_info=error)
            self._postpone(task, self._wait(BACKOFF, task), memory.named(error), counts=True)

    def _give_up(self, task: Task, kind: "TaskKind", reason: str) -> None:
        self._host.units.run(lambda unit: give_up(unit, task, kind, reason))

    def _postpone(self, task: Task, seconds: float, reason: str, *, counts: bool) -> None:
        self._host.units.run(
            lambda unit: taskrows.postpone(unit, task, seconds, reason, counts=counts),
            isolation=Isolation.READ_COMMITTED,
        )

    def _wait(self, backoff: Backoff, task: Task) -> float:
        return backoff.drawn(task.attempt, self._host.randomness.uniform)


class TaskRenewer:
    """A Loop that keeps the claims of the workers of this process while they work."""

    def __init__(self, service: str, workers: Callable[[], list[TaskWorker]], *, ttl: float = 15.0) -> None:
        self.name, self.interval = f"{service} renewer", ttl / 3
        self._workers = workers

    def step(self) -> bool:
        for worker in self._workers():
            running = worker.running
            if running is not None and not running.over:
                running.renew()
        return False


class TaskSweeper:
    """A Loop that takes back the tasks whose holder was not heard of for its TTL."""

    def __init__(self, host: "Host", kinds: Mapping[str, "TaskKind"], *, interval: float = 5.0) -> None:
        self.name, self.interval = f"{host.service} sweeper", interval
        self._host, self._kinds = host, kinds
        self._observer = Observer()

    def step(self) -> bool:
        lapsed = self._host.units.run(
            lambda unit: taskrows.lapsed(unit, self._observer), isolation=Isolation.READ_COMMITTED
        )
        for task in lapsed:
            cause = Cause(task.request_id, task.traceparent, task.principal)
            with contextlib.suppress(FencedOff), caused_by(cause):
                self._take_back(task)
        return bool(lapsed)

    def _take_back(self, task: Task) -> None:
        kind = self._kinds.get(task.kind)
        if kind is None or task.lapses + 1 < taskrows.MAX_LAPSES:
            self._host.units.run(lambda unit: taskrows.release(unit, task))
            return
        reason = f"its worker was lost {taskrows.MAX_LAPSES} times while it worked on it"
        self._host.units.run(lambda unit: give_up(unit, task, kind, reason))


def give_up(unit: "Unit", task: Task, kind: "TaskKind", reason: str) -> None:
    """Mark the task failed and its resource with it."""
    taskrows.give_up(unit, task, reason)
    kind.on_failed(unit, task, reason)
