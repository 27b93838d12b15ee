"""Owner: the one thread that uses a resource, or the caller's own thread when inline.

Promises: work runs one piece at a time, in the order of the calls; its result or its error comes back to the caller;
after `close` every call is refused.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class OwnerClosed(Exception):
    """The resource was closed."""


class _Job(Generic[T]):
    __slots__ = ("_done", "_error", "_result", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: T
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._done.release()

    def result(self) -> T:
        self._done.acquire()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # or the traceback would keep this frame alive in a cycle
        return self._result


class Owner:
    def __init__(self, name: str, *, inline: bool) -> None:
        self._name = name
        self._closed = False
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._inline_lock = threading.RLock()
        self._thread: threading.Thread | None = None
        if not inline:
            self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
            self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` as the owner. Called by the owner itself it runs at once."""
        if self._thread is None:
            with self._inline_lock:
                if self._closed:
                    raise OwnerClosed(f"{self._name} is closed")
                return work()
        if threading.current_thread() is self._thread:
            return work()
        job = _Job(work)
        with self._gate:
            if self._closed:
                raise OwnerClosed(f"{self._name} is closed")
            self._jobs.put(job)
        return job.result()

    def close(self, last: Callable[[], None]) -> None:
        """Finish what was asked before, run `last`, stop. Idempotent."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            job = _Job(last)
            if self._thread is not None:
                self._jobs.put(job)
                self._jobs.put(None)
        if self._thread is None:
            job.run()
        job.result()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # or its result would stay until the next one comes
