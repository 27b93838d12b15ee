"""Turns: commands that start a platform for themselves do so one after the other.

Promises: a platform without agents, which a command starts to read, is stopped before the turn of the next one.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tutti.backbone.files import Lock, RealFiles
from tutti.chassis.config.datadir import PROCESSES
from tutti.cli import interrupt
from tutti.cli.output import patiently

FILE = "reader.lock"
LOOK_SECONDS = 0.05


@contextlib.contextmanager
def turn(data_dir: Path) -> Iterator[None]:
    """For as long as it lasts no other command has its turn. Where there is no platform yet nobody waits."""
    words = f"waits for another command that starts the platform of {data_dir} or reads from it"
    lock = awaited(data_dir / FILE, words) if (data_dir / PROCESSES).exists() else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def awaited(path: Path, words: str, *, shared: bool = False) -> Lock | None:
    """The lock of a file, once nobody else has it; `words` say what is waited for.

    None where nothing may be written, so that no platform can be started either.
    """
    files = RealFiles()
    with patiently(words), contextlib.suppress(OSError):
        while (lock := files.try_lock(path, shared=shared)) is None:
            interrupt.check()
            time.sleep(LOOK_SECONDS)
        return lock
    return None
