"""The thread of an engine: it steps while requests are in progress, and runs what others ask between two steps.

Promises: the engine is used by one thread alone; a question waits for at most one step; a defect ends the thread and
is reported, so that the process ends instead of standing still.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tutti.chat.replica.sessions import Sessions

T = TypeVar("T")


class Stepping:
    """Steps the engine of `sessions` from `start` on. `failed` is called in its thread when a defect has ended it."""

    def __init__(self, sessions: Sessions, failed: Callable[[BaseException], None]) -> None:
        self._sessions, self._failed = sessions, failed
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._began: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def between(self, ask: Callable[[Sessions], T]) -> "Future[T]":
        """Call `ask` in the thread of the engine, between two steps."""
        future = Future[T]()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(ask(self._sessions))
            except Exception as error:
                future.set_exception(error)

        self._asked.put(answer)
        return future

    @property
    def stepping_seconds(self) -> float:
        """The time since the step in progress began; 0 between steps."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _run(self) -> None:
        try:
            while True:
                self._answer_all()
                self._began = time.monotonic()
                self._sessions.step()
                self._began = None
        except BaseException as error:
            self._failed(error)

    def _answer_all(self) -> None:
        """Answer all that was asked by now; without work, wait for more."""
        while not self._sessions.busy:
            self._asked.get()()
        while True:
            try:
                asked = self._asked.get_nowait()
            except queue.Empty:
                return
            asked()
