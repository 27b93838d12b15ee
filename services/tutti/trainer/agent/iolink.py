"""The link to the I/O child: starts it, restarts it when it dies or hangs, speaks with it.

A child that does not answer a question that costs nothing is killed; the next one goes on with the spool, and has twice
the time to answer.
"""

import logging
import signal
import socket
import subprocess
from collections.abc import Sequence

from tutti.backbone.clock import Clock
from tutti.contracts.trainer.v1 import IoMessage, StageRequest
from tutti.platform import interpreter
from tutti.platform.heartbeattimeout import Doubling, HeartbeatTimeout
from tutti.platform.processes import ProcessId, process_id
from tutti.trainer.framing import PolledChannel
from tutti.trainer.io.iosettings import IoSettings

_BETWEEN_STARTS = 1.0

log = logging.getLogger(__name__)


class ProcessIoLink:
    """A real child. `restarts` counts its successors."""

    def __init__(self, settings: IoSettings, clock: Clock, *, silence: float) -> None:
        self.restarts, self.fate = 0, ""
        self._asked = self._next_start = 0.0
        self._settings, self._clock, self._silence = settings, clock, silence
        self._doubling = Doubling()
        self._start()

    def send(self, message: IoMessage) -> None:
        self._channel.send(message)

    def receive(self) -> list[IoMessage]:
        found = self._channel.receive()
        now = self._clock.monotonic()
        if found and self._doubling.well(now):
            self._wait_for_answers(now)
        silent = self._timeout.over(now, heard=bool(found))
        if self._channel.ended or self._child.poll() is not None:
            if now >= self._next_start:
                self._restart(f"ended ({_code(self._child)})")
        elif silent:
            self._doubling.missed(now)
            self._restart(f"has not answered for {self._limit:g} s")
        elif now - self._asked > self._silence / 4:
            self._asked = now
            self._channel.send(IoMessage(stage=StageRequest()))
        return [message for message in found if not _is_pulse(message)]

    def processes(self) -> Sequence[ProcessId]:
        return [self._id]

    def filenos(self) -> Sequence[int]:
        return [] if self._channel.ended else [self._channel.fileno()]

    def close(self) -> None:
        self._channel.close()
        self._child.kill()
        self._child.wait()

    def _start(self) -> None:
        own, theirs = socket.socketpair()
        try:
            self._child = interpreter.start(
                interpreter.module("tutti.trainer.io.iochild", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
            )
        finally:
            theirs.close()
        self._id = process_id(self._child.pid)
        assert self._child.stdin is not None
        self._child.stdin.write(self._settings.to_json().encode())
        self._child.stdin.close()
        self._channel: PolledChannel[IoMessage] = PolledChannel(own, IoMessage)
        self._asked = self._clock.monotonic()
        self._next_start = self._asked + _BETWEEN_STARTS
        self._wait_for_answers(self._asked)

    def _wait_for_answers(self, now: float) -> None:
        self._limit = self._doubling.limit(self._silence)
        self._timeout = HeartbeatTimeout(self._limit, now)

    def _restart(self, why: str) -> None:
        self.fate = f"the I/O child (process {self._child.pid}) {why}"
        log.warning("%s: another takes over", self.fate)
        self.close()
        self._start()
        self.restarts += 1


def _code(child: subprocess.Popen[bytes]) -> str:
    """The exit code, or the signal that ended it."""
    code = child.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _is_pulse(message: IoMessage) -> bool:
    return message.WhichOneof("body") == "staged" and message.staged.id == 0
