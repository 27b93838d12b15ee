"""Turns: commands that start a platform for themselves alone, to read, have it one after the other.

Promises: nobody else relies on a platform that ends with the command that started it, and that runs no agent.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tutti.backbone.files import Lock, RealFiles
from tutti.chassis.datadir import PROCESSES
from tutti.cli import interrupt
from tutti.cli.output import patiently

FILE = "reader.lock"
LOOK_SECONDS = 0.05


@contextlib.contextmanager
def turn(data_dir: Path) -> Iterator[None]:
    """For as long as it lasts no other command has its turn. Where there is no platform yet nobody waits."""
    lock = _awaited(data_dir) if (data_dir / PROCESSES).exists() else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _awaited(data_dir: Path) -> Lock | None:
    """None where nothing may be written, so that no platform can be started either."""
    files = RealFiles()
    with patiently(f"waits for another command that reads from {data_dir}"), contextlib.suppress(OSError):
        while (lock := files.try_lock(data_dir / FILE)) is None:
            interrupt.check()
            time.sleep(LOOK_SECONDS)
        return lock
    return None
