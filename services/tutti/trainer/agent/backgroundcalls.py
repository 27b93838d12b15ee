"""Background calls: how the agent calls the control plane without ever waiting for it.

One call at a time in each lane, so what is told in a lane arrives in order; another lane is not held up by it.
"""

import contextlib
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadedCalls:
    """A thread a lane. `deliver` is called by one thread only."""

    def __init__(self) -> None:
        self._lanes: dict[str, queue.SimpleQueue[Callable[[], None]]] = {}
        self._busy: set[str] = set()
        self._answers: queue.SimpleQueue[tuple[str, Callable[[Any], None], Any]] = queue.SimpleQueue()
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)

    def busy(self, lane: str) -> bool:
        return lane in self._busy

    def send(self, lane: str, call: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        if lane not in self._lanes:
            self._lanes[lane] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._lanes[lane],), name=f"calls {lane}", daemon=True).start()
        self._busy.add(lane)
        self._lanes[lane].put(lambda: self._answer(lane, call, then))

    def deliver(self) -> bool:
        with contextlib.suppress(OSError):
            self._wake.recv(4096)
        did = False
        while not self._answers.empty():
            lane, then, answer = self._answers.get()
            self._busy.discard(lane)
            then(answer)
            did = True
        return did

    def filenos(self) -> Sequence[int]:
        return [self._wake.fileno()]

    def close(self) -> None:
        """Stop; a running call is left to its own deadline, and its thread ends with the process."""
        for sock in (self._wake, self._waker):
            sock.close()

    def _answer(self, lane: str, call: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        answer: T | Exception
        try:
            answer = call()
        except Exception as error:
            answer = error
        self._answers.put((lane, then, answer))
        self.wake()

    def wake(self) -> None:
        """Make a waiting loop look again; for any thread."""
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    @staticmethod
    def _serve(work: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            work.get()()


class InlineCalls:
    """Calls at once, on the caller's thread: for a simulation that owns all of them."""

    def __init__(self) -> None:
        self._answers: deque[tuple[str, Callable[[Any], None], Any]] = deque()

    def busy(self, lane: str) -> bool:
        return any(name == lane for name, _, _ in self._answers)

    def send(self, lane: str, call: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        answer: T | Exception
        try:
            answer = call()
        except Exception as error:
            answer = error
        self._answers.append((lane, then, answer))

    def deliver(self) -> bool:
        did = bool(self._answers)
        while self._answers:
            _, then, answer = self._answers.popleft()
            then(answer)
        return did

    def filenos(self) -> Sequence[int]:
        return []

    def close(self) -> None:
        self._answers.clear()
