"""Guests: `tutti run` commands that use the platform that another one started, and will stop.

Guarantees: the command that started a platform knows whether it has guests; a `tutti run` that comes while the platform
stops waits until it has stopped. A guest that was killed is gone.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tutti.backbone.files import Lock
from tutti.backbone.ours import OwnFiles
from tutti.cli import interrupt
from tutti.cli.output import patiently

FILE = "guests.lock"
LOOK_SECONDS = 0.05


@contextlib.contextmanager
def guest(data_dir: Path) -> Iterator[None]:
    """For as long as it lasts, the platform of the directory is not stopped by the command that started it."""
    lock = _awaited(data_dir) if data_dir.is_dir() else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _awaited(data_dir: Path) -> Lock | None:
    """Wait while the door is closed, and return the lock of a guest; None if the directory cannot be written."""
    files = OwnFiles()
    with patiently(f"waits until the platform of {data_dir} has stopped"), contextlib.suppress(OSError):
        while (lock := files.try_lock(data_dir / FILE, shared=True)) is None:
            interrupt.check()
            time.sleep(LOOK_SECONDS)
        return lock
    return None


class Door:
    """The door that the command that started a platform closes before it stops the platform; leaving the context opens
    it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE
        self._lock: Lock | None = None

    def close(self) -> bool:
        """Let nobody in any more. False while there are guests."""
        self._lock = self._lock or OwnFiles().try_lock(self._path)
        return self._lock is not None

    def open(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
