"""Processes as (pid, start time): an identity that a reused pid does not have.

Killing one that is gone, or that is another one by now, does nothing.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, order=True)
class ProcessId:
    """`started` is in clock ticks since boot, as the kernel counts; 0 is unknown and matches nothing."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not."""
        seen, state = _stat(self.pid)
        return self.started > 0 and seen == self.started and state not in ("Z", "X")


def process_id(pid: int) -> ProcessId:
    """The identity of a running process."""
    return ProcessId(pid, _stat(pid)[0])


def _stat(pid: int) -> tuple[int, str]:
    """(start time in ticks, state letter); (0, "X") when there is no such process. See proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return (0, "X") if os.path.exists("/proc/self/stat") else _portable(pid)
    except (ProcessLookupError, PermissionError):
        return 0, "X"
    return int(fields[19]), fields[0]


def _portable(pid: int) -> tuple[int, str]:
    try:
        process = psutil.Process(pid)
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return int(process.create_time() * 100), "Z" if zombie else "R"
    except psutil.NoSuchProcess:
        return 0, "X"


def kill(process: ProcessId) -> None:
    """SIGKILL, if it is still the one. A stopped process dies of it too."""
    if process.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def wait_until_gone(process: ProcessId, seconds: float) -> bool:
    """Whether it was gone in time. For starting and stopping; a loop asks `alive`."""
    deadline = time.monotonic() + seconds
    while process.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
