"""The signals that tell a process to end: SIGTERM and Ctrl-C.

Promises: a handler waits for nothing. `threading.Event.set` does: it takes a lock, which the thread that the signal
interrupted may hold, and then the process neither ends nor goes on. And no signal waits for the end of a wait: one that
arrives just before the main thread sleeps, or in another thread, wakes no lock and no queue; Python only notes it. So
the wait reads a socket, to which Python writes wherever the signal arrives (`signal.set_wakeup_fd`).
"""

import os
import select
import signal
import socket
import time
from contextlib import suppress

SECOND_SIGNAL = 130
READ_BYTES = 4096


class Stop:
    """Like a `threading.Event` that one thread waits for, but may be set in a signal handler."""

    def __init__(self) -> None:
        self.reason = ""
        """The first that `set` was given."""
        self._set = False
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)

    def is_set(self) -> bool:
        return self._set

    def set(self, reason: str = "") -> None:
        self.reason = self.reason or reason
        self._set = True
        with suppress(BlockingIOError):  # full of words that nobody read yet: they wake, too
            self._waker.send(b"!")

    def waker(self) -> int:
        """The descriptor; a byte written to it ends a wait that has to look again."""
        return self._waker.fileno()

    def fileno(self) -> int:
        """The descriptor for loops that wait for others too: readable after a signal or `set`, until `clear`."""
        return self._wake.fileno()

    def clear(self) -> None:
        """Discard the bytes that ended a wait; what is set stays so."""
        with suppress(BlockingIOError):
            self._wake.recv(READ_BYTES)

    def wait(self, seconds: float) -> bool:
        """True as soon as it is set; false if it is not within `seconds`."""
        deadline = time.monotonic() + seconds
        told = select.poll()
        told.register(self._wake, select.POLLIN)
        while not self._set:
            left = deadline - time.monotonic()
            if left <= 0 or not told.poll(left * 1000):
                break
            self.clear()
        return self._set


class Signals:
    """Sets `stop` when the process gets a signal, and keeps its name; a second one ends the process at once."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.name = ""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)
        signal.set_wakeup_fd(stop.waker(), warn_on_full_buffer=False)

    def _handle(self, number: int, _frame: object) -> None:
        if self.name:
            os._exit(SECOND_SIGNAL)
        self.name = signal.Signals(number).name
        self._stop.set(self.name)
