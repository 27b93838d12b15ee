"""The agent's end of the fork server: starts it when the first rank needs it, and again when it died or hangs.

Ranks that a dead server had forked go on; those that were asked of it will not come, and are told so. After a server
that did not answer in time, the next one has twice the time.
"""

import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tutti.platform import interpreter
from tutti.platform.heartbeattimeout import Doubling, HeartbeatTimeout
from tutti.platform.processes import ProcessId, process_id
from tutti.trainer.rank.forkserver import FORK, NOTICE, PURE_THREADS, Notice

START_SECONDS = 120.0  # for a server to import what its ranks need
SILENCE_SECONDS = 20.0
ENDED_SECONDS = 1.0
log = logging.getLogger(__name__)


class Forked(Protocol):
    """The callbacks about a forked process."""

    def started(self, process: ProcessId) -> None: ...

    def exited(self, code: int) -> None: ...

    def orphaned(self, server_exit_code: int | None) -> None: ...


class ForkClient:
    """One server. Several launchers may share it, on any threads."""

    def __init__(self, silence: float = SILENCE_SECONDS, program: str = "tutti.trainer.rank.forkserver") -> None:
        """`silence`: seconds in which a server that has started must answer; `program`: the module that it runs."""
        self._program = program
        self.threads_of_server = 0
        self.server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._expected: deque[Forked] = deque()
        self._running: dict[int, Forked] = {}
        self._ids: tuple[ProcessId, ...] = ()
        self._silence, self._doubling = silence, Doubling()
        self._lock = threading.Lock()

    def fork(self, given: socket.socket, forked: Forked) -> None:
        """Fork a process that owns `given`. Raises OSError."""
        self.poll()
        with self._lock:
            if self._control is None:
                self._start()
            assert self._control is not None
            socket.send_fds(self._control, [FORK], [given.fileno()])
            self._expected.append(forked)

    def poll(self) -> None:
        """Take in what the server has to tell; one that does not answer is as good as dead."""
        with self._lock:
            heard = not self._expected
            while self._control is not None and select.select([self._control], [], [], 0)[0]:
                try:
                    data = self._control.recv(NOTICE.size)
                except ConnectionResetError:
                    data = b""
                if len(data) == NOTICE.size:
                    heard = True
                    self._notice(*NOTICE.unpack(data))
                else:
                    self._died(self._exit_code())
            now = time.monotonic()
            if self._control is not None and self._timeout.over(now, heard=heard):
                self._doubling.missed(now)
                log.warning("the fork server (process %d) does not answer and is killed", self._ids[0].pid)
                self._died(None)

    def processes(self) -> Sequence[ProcessId]:
        return list(self._ids)

    def filenos(self) -> Sequence[int]:
        control = self._control
        return [control.fileno()] if control is not None and control.fileno() >= 0 else []

    def close(self) -> None:
        with self._lock:
            if self._control is not None:
                self._died(None)

    def _start(self) -> None:
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.server = interpreter.start(
                interpreter.module(self._program, str(theirs.fileno())),
                {**os.environ, **PURE_THREADS},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        finally:
            theirs.close()
        self._control, self._ids = own, (process_id(self.server.pid),)
        self._wait_for(START_SECONDS)

    def _wait_for(self, seconds: float) -> None:
        """Expect the next answer of the server within `seconds`, or more after limits that it missed."""
        self._timeout = HeartbeatTimeout(self._doubling.limit(seconds), time.monotonic())

    def _notice(self, kind: int, first: int, second: int) -> None:
        match Notice(kind):
            case Notice.READY:
                self.threads_of_server = first
                self._wait_for(self._silence)
            case Notice.FORKED:
                if self._doubling.well(time.monotonic()):
                    self._wait_for(self._silence)
                forked = self._running[first] = self._expected.popleft()
                forked.started(ProcessId(first, second))
            case Notice.EXITED:
                if (gone := self._running.pop(first, None)) is not None:
                    gone.exited(second)

    def _exit_code(self) -> int | None:
        """The exit code of a server that has closed its socket, None if it goes on all the same."""
        assert self.server is not None
        try:
            return self.server.wait(ENDED_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def _died(self, exit_code: int | None) -> None:
        """`exit_code`: None for a server that is killed here."""
        assert self.server is not None
        assert self._control is not None
        self._control.close()
        self.server.kill()
        self.server.wait()
        self._control = self.server = None
        self._ids = ()
        while self._expected:
            self._expected.popleft().exited(-signal.SIGKILL)
        for forked in self._running.values():
            forked.orphaned(exit_code)
        self._running.clear()
