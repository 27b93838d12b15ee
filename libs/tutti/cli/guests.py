"""Guests: commands that use the platform of a data directory, which ends with the command that started it.

Promises: the command that started a platform knows whether it has guests; a command that comes while the platform stops
waits until it has stopped. A guest that was killed is gone.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tutti.backbone.files import Lock, RealFiles
from tutti.cli.turns import awaited

FILE = "guests.lock"


@contextlib.contextmanager
def guest(data_dir: Path) -> Iterator[None]:
    """For as long as it lasts, the platform of the directory is not stopped by the command that started it."""
    words = f"waits until the platform of {data_dir} has stopped"
    lock = awaited(data_dir / FILE, words, shared=True) if data_dir.is_dir() else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


class Door:
    """The door that the command that started a platform closes before it stops the platform; leaving the context opens
    it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE
        self._lock: Lock | None = None

    def close(self) -> bool:
        """Let nobody in any more. False while there are guests."""
        self._lock = self._lock or RealFiles().try_lock(self._path)
        return self._lock is not None

    def open(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
