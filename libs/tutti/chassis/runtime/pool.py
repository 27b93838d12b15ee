"""Processes for heavy work.

Promises: a worker is a fresh process that inherits no socket, thread, setting or secret; a function that is cancelled
is gone at once, together with its worker; a worker whose parent died ends by itself.
"""

import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from tutti.chassis.config.settings import ENVIRONMENT_PREFIX
from tutti.chassis.errors import Unavailable
from tutti.chassis.progress import Progress

P = ParamSpec("P")
T = TypeVar("T")
_SECRET_NAME = re.compile(r"(?:^|_)(secret|password|token|credential|key)s?(?:_|$)", re.IGNORECASE)
_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
LOOK_SECONDS = 0.1  # between two looks at whether the caller still wants the result


class PoolError(Exception):
    """A function of the pool did not return."""


class PoolCancelled(PoolError):
    """The caller gave up; the worker was killed."""


class PoolClosed(PoolError, Unavailable):
    """This process stops; the worker was killed. Transient: another process can do it."""


class WorkerDied(PoolError):
    """The worker ended before its function did: killed, out of memory, or a crash."""


class ProcessPool:
    """At most `size` functions at a time; further callers wait. A worker idle for `idle_seconds` ends by itself.

    `scratch`: where workers make temporary files; None: where the system does.
    """

    def __init__(self, size: int = 0, *, idle_seconds: float = 60.0, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._slots = threading.Semaphore(size or min(os.cpu_count() or 1, 4))
        self._idle_seconds = idle_seconds
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a top-level function in a worker; what it raises is raised here. Raises PoolError."""
        return self.watch(lambda: False, _ignore, fn, *args, **kwargs)

    def run_until(self, cancelled: Callable[[], bool], fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same, but killed once `cancelled()` is true."""
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
        while not self._slots.acquire(timeout=LOOK_SECONDS):
            self._check(cancelled, name)
        try:
            self._check(cancelled, name)
            return cast(T, self._once(request, cancelled, hear, name))
        finally:
            self._slots.release()

    def close(self) -> None:
        """Kill what runs; idempotent."""
        self._closed.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()

    def _once(
        self, request: bytes, cancelled: Callable[[], bool], hear: Callable[[Progress], None], name: str
    ) -> object:
        worker = self._that_accepts(request, name)
        try:
            while isinstance(said := self._next(worker, cancelled, name), Progress):
                hear(said)
            returned, value = said
        except BaseException:
            worker.kill()
            raise
        with self._lock:
            keep = not self._closed.is_set()
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.kill()
        if returned:
            return value
        assert isinstance(value, BaseException)
        raise value

    def _next(self, worker: "_Worker", cancelled: Callable[[], bool], name: str) -> "Progress | tuple[bool, object]":
        """The next message of the worker: its progress or its result."""
        while not worker.connection.poll(LOOK_SECONDS):
            self._check(cancelled, name)
        try:
            return worker.receive()
        except EOFError:
            raise WorkerDied(f"the process that ran {name} {worker.how_it_ended()}") from None

    def _that_accepts(self, request: bytes, name: str) -> "_Worker":
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            worker = kept or _Worker(self._idle_seconds, self._scratch)
            if worker.accept(request):
                return worker
            how = worker.how_it_ended()
            worker.kill()
            if kept is None:  # a kept one may just have ended for idleness; a new one may not
                raise WorkerDied(f"the process that should run {name} {how}")

    def _check(self, cancelled: Callable[[], bool], name: str) -> None:
        if self._closed.is_set():
            raise PoolClosed(f"the pool closed while {name} ran: this process stops")
        if cancelled():
            raise PoolCancelled(f"{name} was cancelled")


def _ignore(said: Progress) -> None:
    """Nobody wants to know."""


def harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without settings and secrets: a worker parses what strangers wrote."""
    return {
        name: value
        for name, value in environment.items()
        if not (name.startswith(ENVIRONMENT_PREFIX) or _SECRET_NAME.search(name) or _PASSWORD.search(value))
    }


class _Worker:
    def __init__(self, idle_seconds: float, scratch: Path | None) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # close_fds leaves the worker nothing but its end of the pair; its own session keeps signals of a terminal
            # away, so that the host decides when it ends.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tutti.chassis.runtime.worker", str(theirs.fileno()), str(idle_seconds)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=harmless(os.environ) | ({"TMPDIR": str(scratch)} if scratch else {}),
            )
        self.connection: Connection = Connection(ours.detach())

    def accept(self, request: bytes) -> bool:
        """Hand the function over; whether the worker took it."""
        try:
            self.connection.send_bytes(request)
            return self.connection.recv_bytes() == b"taken"
        except (EOFError, OSError):
            return False

    def receive(self) -> Progress | tuple[bool, object]:
        try:
            said = pickle.loads(self.connection.recv_bytes())  # noqa: S301 - our own worker
            return cast("Progress | tuple[bool, object]", said)
        except OSError:
            raise EOFError from None

    def how_it_ended(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def kill(self) -> None:
        self.connection.close()
        self._process.kill()
        deadline = time.monotonic() + 5
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
