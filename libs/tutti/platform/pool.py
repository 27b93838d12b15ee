"""Processes for heavy work.

Promises: a worker is a fresh process that inherits no socket, thread, setting or secret; a function that is cancelled
is gone at once, together with its worker; a worker whose parent died ends by itself, and one that a signal stopped is
killed.
"""

import logging
import math
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from tutti.backbone import Clock
from tutti.chassis.errors import Unavailable
from tutti.chassis.progress import Progress
from tutti.chassis.tasks import CancellablePool, Pool
from tutti.platform.workers import LOOK_SECONDS, Check, Lost, Worker

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class PoolError(Exception):
    """A function of the pool did not return."""


class PoolCancelled(PoolError):
    """The caller gave up; the function was ended."""


class PoolClosed(PoolError, Unavailable):
    """This process stops; the worker was killed. Transient: another process can do it."""


class WorkerDied(PoolError):
    """The worker was lost before its function returned: killed, stopped, silent, out of memory, or a crash."""


def run_within(pool: Pool, clock: Clock, seconds: float, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function in a process of the pool. Raises PoolCancelled if it takes longer than `seconds`."""
    if not isinstance(pool, CancellablePool):
        return pool.run(fn, *args, **kwargs)
    until = clock.monotonic() + seconds
    return pool.run_until(lambda: clock.monotonic() >= until, fn, *args, **kwargs)


class ProcessPool:
    """At most `size` functions at a time; further callers wait. A worker idle for `idle_seconds` ends by itself.

    `scratch`: where workers make temporary files; None: where the system does. `resident`: see there; a pool without
    one runs such functions as it runs others.
    """

    name = "pool"
    silence_seconds = math.inf
    """A worker that reports no progress for so long is killed."""

    def __init__(
        self,
        size: int = 0,
        *,
        idle_seconds: float = 60.0,
        scratch: Path | None = None,
        resident: "ProcessPool | None" = None,
    ) -> None:
        self.resident = resident or self
        self._scratch = scratch
        self._slots = threading.Semaphore(size or min(os.cpu_count() or 1, 4))
        self._idle_seconds = idle_seconds
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a top-level function in a worker; what it raises is raised here. Raises PoolError."""
        return self.watch(lambda: False, _ignore, fn, *args, **kwargs)

    def run_until(self, cancelled: Callable[[], bool], fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same, but ended once `cancelled()` is true."""
        return self.watch(cancelled, _ignore, fn, *args, **kwargs)

    def watch(
        self,
        cancelled: Callable[[], bool],
        hear: Callable[[Progress], None],
        fn: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same, and what the function says of its progress goes to `hear`, in this thread."""
        request = pickle.dumps((fn, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)
        name = getattr(fn, "__qualname__", repr(fn))

        def check() -> None:
            if self._closed.is_set():
                raise PoolClosed(f"the pool closed while {name} ran: this process stops")
            if cancelled():
                raise PoolCancelled(f"{name} was cancelled")

        while not self._slots.acquire(timeout=LOOK_SECONDS):
            check()
        try:
            check()
            return cast(T, self._once(request, check, hear, name))
        finally:
            self._slots.release()

    def close(self) -> None:
        """Kill what runs; idempotent."""
        self._closed.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()
        if self.resident is not self:
            self.resident.close()

    def ended_early(self, worker: Worker) -> bool:
        """End the function of a worker whose caller gave up; True if the worker can take another."""
        return False

    def _once(self, request: bytes, check: Check, hear: Callable[[Progress], None], name: str) -> object:
        worker = self._that_accepts(request, check, name)
        try:
            while isinstance(said := worker.next(check, self.silence_seconds), Progress):
                hear(said)
            returned, value = said
        except Lost as lost:
            worker.kill()
            raise self._died(worker, "ran", name, lost) from None
        except PoolCancelled:
            self._put_back(worker, keep=self.ended_early(worker))
            raise
        except BaseException:
            worker.kill()
            raise
        self._put_back(worker, keep=True)
        if returned:
            return value
        assert isinstance(value, BaseException)
        raise value

    def _put_back(self, worker: Worker, *, keep: bool) -> None:
        with self._lock:
            keep = keep and not self._closed.is_set()
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.kill()

    def _that_accepts(self, request: bytes, check: Check, name: str) -> Worker:
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            worker = kept or self._new_worker()
            try:
                worker.take(request, check)
                return worker
            except Lost as lost:
                worker.kill()
                if kept is None:  # a kept one may have ended because it was idle, or been killed; a new one may not
                    raise self._died(worker, "should run", name, lost) from None
                _log.info("%s: the idle process %d %s; another one is started", self.name, worker.pid, lost)
            except BaseException:
                worker.kill()
                raise

    def _new_worker(self) -> Worker:
        return Worker(self._idle_seconds, self._scratch, self.name)

    def _died(self, worker: Worker, did: str, name: str, lost: Lost) -> WorkerDied:
        return WorkerDied(f"the process that {did} {name} {lost}")


def _ignore(said: Progress) -> None:
    """Nobody wants to know."""
