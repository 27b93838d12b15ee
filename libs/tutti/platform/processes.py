"""Processes by (pid, start time): an identity that a reused pid does not have.

Promises: a signal reaches the process that was recorded, or none.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass

import psutil

AGENT = "agent-"
"""The prefix of the names of a supervisor's agents; the name of the node comes after it."""
_ENDED = ("Z", "X")


@dataclass(frozen=True)
class ProcessId:
    """`started` is in clock ticks since boot, as the kernel counts (elsewhere: hundredths of the creation time)."""

    pid: int
    started: int

    def alive(self) -> bool:
        """A zombie is not."""
        started, state = _look(self.pid)
        return started == self.started and state not in _ENDED

    def stopped(self) -> bool:
        """True if a signal stopped the process: it reacts only to SIGCONT and SIGKILL."""
        return _look(self.pid) == (self.started, "T")

    def send(self, number: signal.Signals) -> None:
        """To it alone; nothing when it is gone, or another one has its pid by now."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def signal_group(self, number: signal.Signals) -> None:
        """To its process group; nothing when it is gone."""
        if self.alive():
            signal_group(self.pid, number)


@dataclass(frozen=True)
class Recorded:
    """One child in processes.json."""

    name: str
    state: str
    pid: int
    started: int
    since: str
    restarts: int
    exit: str


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
    """Wait at most so many seconds; True if the process has ended."""
    deadline = time.monotonic() + seconds
    while process.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _look(pid: int) -> tuple[int, str]:
    """(start time, state as in proc(5): T stopped, Z zombie, …); (0, X) when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[19]), fields[0]
    except (FileNotFoundError, ProcessLookupError):
        if os.path.exists("/proc/self/stat"):
            return 0, "X"
    try:
        process = psutil.Process(pid)
        states = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_STOPPED: "T"}
        return int(process.create_time() * 100), states.get(process.status(), "S")
    except psutil.NoSuchProcess:
        return 0, "X"
