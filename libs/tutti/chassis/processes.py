"""Processes by (pid, start time): an identity that a reused pid does not have.

Promises: a signal reaches the process that was recorded, or none.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class ProcessId:
    """`started` is in clock ticks since boot, as the kernel counts (elsewhere: hundredths of the creation time)."""

    pid: int
    started: int

    def alive(self) -> bool:
        """A zombie is not."""
        return _look(self.pid) == (self.started, True)

    def signal_group(self, number: signal.Signals) -> None:
        """To its process group; nothing when it is gone."""
        if self.alive():
            signal_group(self.pid, number)


def process_id(pid: int) -> ProcessId:
    return ProcessId(pid, _look(pid)[0])


def signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end(process: ProcessId, seconds: float) -> bool:
    """SIGTERM, and SIGKILL after so many seconds; whether it ended by itself."""
    process.signal_group(signal.SIGTERM)
    if gone(process, seconds):
        return True
    process.signal_group(signal.SIGKILL)
    return False


def gone(process: ProcessId, seconds: float) -> bool:
    """Whether it has ended after at most so many seconds."""
    deadline = time.monotonic() + seconds
    while process.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _look(pid: int) -> tuple[int, bool]:
    """(start time, whether it runs); (0, False) when there is none. See proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[19]), fields[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        if os.path.exists("/proc/self/stat"):
            return 0, False
    try:
        process = psutil.Process(pid)
        return int(process.create_time() * 100), process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return 0, False
