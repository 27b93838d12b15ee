"""The signals that tell a process to end: SIGTERM and Ctrl-C.

Promises: a handler waits for nothing. `threading.Event.set` does: it takes a lock, which the thread that the signal
interrupted may hold, and then the process neither ends nor goes on.
"""

import os
import queue
import signal
from contextlib import suppress

SECOND_SIGNAL = 130


class Stop:
    """Like a `threading.Event`, but may be set in a signal handler."""

    def __init__(self) -> None:
        self._set = False
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()  # whose `put` may interrupt any of its methods

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._told.put(None)

    def wait(self, seconds: float) -> bool:
        """True as soon as it is set; false if it is not within `seconds`."""
        with suppress(queue.Empty):
            self._told.get(timeout=seconds)
            self._told.put(None)  # so that later calls return at once too
        return self._set


class Signals:
    """Sets `stop` when the process gets a signal, and keeps its name; a second one ends the process at once."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.name = ""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: object) -> None:
        if self.name:
            os._exit(SECOND_SIGNAL)
        self.name = signal.Signals(number).name
        self._stop.set()
