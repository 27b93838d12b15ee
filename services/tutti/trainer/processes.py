"""Ending processes for good: SIGKILL to the one that was recorded, or to none.

A stopped process dies of it too; whoever waits is told when it is gone.
"""

import contextlib
import os
import signal
import time

from tutti.chassis.processes import ProcessId, process_id

__all__ = ["ProcessId", "kill", "process_id", "wait_until_gone"]


def kill(process: ProcessId) -> None:
    """Nothing when it is gone, or another one has its pid by now."""
    if process.alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def wait_until_gone(process: ProcessId, seconds: float) -> bool:
    """Whether it was gone in time. For starting and stopping; a loop asks `alive`."""
    deadline = time.monotonic() + seconds
    while process.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
