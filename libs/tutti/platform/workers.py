"""One worker process of a pool: started, given functions, watched, killed.

Promises: no wait for a worker is unbounded: one that has ended, was stopped by a signal or says nothing for too long is
reported, with the cause. A worker inherits no socket but its own, no setting and no secret.
"""

import math
import os
import pickle
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

from tutti.chassis.config import memory
from tutti.chassis.config.settings import ENVIRONMENT_PREFIX
from tutti.chassis.progress import Progress
from tutti.platform import interpreter
from tutti.platform.heartbeattimeout import HeartbeatTimeout
from tutti.platform.processes import process_id
from tutti.platform.worker import ABANDON

LOOK_SECONDS = 0.1  # between two looks at whether the caller still wants the result
STOPPED_SECONDS = 5.0
"""A worker that a signal stopped (SIGSTOP, SIGTSTP) for so long is killed."""
TRANSFER_SECONDS = 30
"""The longest pause within one message."""
_SECRET_NAME = re.compile(r"(?:^|_)(secret|password|token|credential|key)s?(?:_|$)", re.IGNORECASE)
_PASSWORD = re.compile(r"://[^/\s]*:[^/\s]*@")
Check = Callable[[], None]
"""Raises if nobody waits for the result any more."""


class Lost(Exception):
    """The worker does not answer any more; the message is a predicate: "was ended by SIGKILL"."""


class Worker:
    """A process that runs one function at a time. `name` is shown in the list of processes."""

    def __init__(self, idle_seconds: float, scratch: Path | None, name: str = "pool") -> None:
        ours, theirs = socket.socketpair()
        limit = struct.pack("@ll", TRANSFER_SECONDS, 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        with theirs:
            # close_fds leaves the worker nothing but its end of the pair; its own session keeps signals of a terminal
            # away, so that the host decides when it ends.
            self._process = interpreter.start(
                interpreter.module("tutti.platform.worker", str(theirs.fileno()), str(idle_seconds), name),
                harmless(os.environ) | ({"TMPDIR": str(scratch)} if scratch else {}),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._id = process_id(self._process.pid)
        self._connection: Connection = Connection(ours.detach())

    @property
    def pid(self) -> int:
        return self._process.pid

    def take(self, request: bytes, check: Check) -> None:
        """Hand a function over. Raises Lost, and what `check` raises."""
        try:
            self._connection.send_bytes(request)
        except OSError:
            raise Lost(self._how_it_ended()) from None
        if self._receive(check, math.inf) != b"taken":
            raise Lost("answered something that is not in the protocol")

    def next(self, check: Check, silence: float) -> Progress | tuple[bool, object]:
        """The progress of the function in progress, or (True, result) or (False, exception).

        Raises Lost when there is none for `silence` seconds, and what `check` raises.
        """
        said = pickle.loads(self._receive(check, silence))  # noqa: S301 - our own worker
        return cast("Progress | tuple[bool, object]", said)

    def abandon(self, seconds: float) -> bool:
        """Ask the worker to end its function; True if it did within so many seconds and can take another."""
        deadline = time.monotonic() + seconds
        try:
            self._connection.send_bytes(ABANDON)
            while self._connection.poll(max(deadline - time.monotonic(), 0.0)):
                if not isinstance(pickle.loads(self._connection.recv_bytes()), Progress):  # noqa: S301 - as above
                    return True
        except (EOFError, OSError):
            return False
        return False

    def kill(self) -> None:
        self._connection.close()
        self._process.kill()
        deadline = time.monotonic() + 5
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)

    def _receive(self, check: Check, silence: float) -> bytes:
        now = time.monotonic()
        stopped, silent = HeartbeatTimeout(STOPPED_SECONDS, now), HeartbeatTimeout(silence, now)
        while not self._connection.poll(LOOK_SECONDS):
            check()
            now = time.monotonic()
            if stopped.over(now, heard=not self._id.stopped()):
                raise Lost(f"was stopped by a signal for {STOPPED_SECONDS:g} s")
            if silent.over(now, heard=False):
                raise Lost(f"reported no progress for {silence:g} s")
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            raise Lost(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "closed its connection, or paused within a message"
        if code == -signal.SIGKILL:
            return f"was ended by SIGKILL ({memory.KILLED})"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without settings and secrets: a worker parses what strangers wrote."""
    return {
        name: value
        for name, value in environment.items()
        if not (name.startswith(ENVIRONMENT_PREFIX) or _SECRET_NAME.search(name) or _PASSWORD.search(value))
    }
