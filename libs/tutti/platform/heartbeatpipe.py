"""A pipe between a supervisor and a child: it ends with the supervisor, and carries the heartbeats of the child.

Promises: a child that holds its pipe learns of its supervisor's death at once, even after a SIGKILL; a supervisor
learns that the child runs before it imports anything heavy, and then whether its loop still turns; neither ever waits
for the other; imports nothing heavy, so that any child can use it.
"""

import contextlib
import faulthandler
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

VARIABLE = "TUTTI_SUPERVISOR_FD"
BEAT_SECONDS = 1.0
STARTS, BEAT = b"s", b"."
"""The words of a child: that it runs, and that its loop turns. deploy/docker/keeper.c knows them too."""
EXAMINE = signal.SIGUSR1
"""Makes a child that holds its pipe write the stacks of its threads to stderr, even while it hangs."""


class Heartbeat:
    """A child's word that it is well, given by the loop that does its work."""

    def __init__(self, pipe: socket.socket | None) -> None:
        self._pipe, self._next = pipe, 0.0

    def beat(self) -> None:
        """Call it as often as the loop turns; at most once a second it is heard."""
        now = time.monotonic()
        if self._pipe is not None and now >= self._next:
            self._next = now + BEAT_SECONDS
            with contextlib.suppress(OSError):  # gone, or so busy that it has not heard the ones before
                self._pipe.send(BEAT, socket.MSG_DONTWAIT)


def first_word() -> None:
    """Tell the supervisor that this process runs; call it before imports that take long, and `hold` after them."""
    text = os.environ.get(VARIABLE, "")
    if text.isdigit():
        with contextlib.suppress(OSError):
            os.write(int(text), STARTS)


def hold(gone: Callable[[], None]) -> Heartbeat:
    """Call `gone` in a thread once the supervisor is gone. Who holds must beat, or it is killed and started again.

    Where nobody supervises this process, nothing happens and the pulse is not heard.
    """
    text = os.environ.pop(VARIABLE, "")
    if not text.isdigit():
        return Heartbeat(None)
    pipe = socket.socket(fileno=int(text))
    pipe.set_inheritable(False)
    faulthandler.register(EXAMINE, all_threads=True)

    def follow() -> None:
        with contextlib.suppress(OSError):
            while pipe.recv(1):
                pass
        gone()

    threading.Thread(target=follow, name="heartbeat pipe", daemon=True).start()
    return Heartbeat(pipe)


class HeartbeatPipe:
    """The supervisor's end, one a child: start it with `descriptor` and `environment`, then call `given`."""

    def __init__(self) -> None:
        # This end is never inherited, so that it ends with this process and nothing else.
        self._mine, self._theirs = socket.socketpair()
        self._mine.setblocking(False)

    @property
    def descriptor(self) -> int:
        return self._theirs.fileno()

    def environment(self) -> dict[str, str]:
        return {**os.environ, VARIABLE: str(self.descriptor)}

    def given(self) -> None:
        """The child has its end."""
        self._theirs.close()

    def heard(self) -> bytes:
        """Return the words since the last call."""
        heard = b""
        with contextlib.suppress(OSError):
            while words := self._mine.recv(4096):
                heard += words
        return heard

    def close(self) -> None:
        self._mine.close()
        self._theirs.close()
