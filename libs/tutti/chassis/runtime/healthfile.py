"""The health file: what a process reports about itself to a health check outside of it.

Promises: one line, empty while the process serves; its modification time is the last time the process looked, so a
process that hangs is unhealthy too; reading it imports the standard library only, because a check runs every few
seconds.
"""

import contextlib
import os
import time
from pathlib import Path

STALE_SECONDS = 20.0
"""Older than this, the file says nothing; longer than the deadline of a database that hangs."""


def health_path(data_dir: Path, part: str | None) -> Path:
    """The health file of a service that runs alone or of an agent; without `part`, that of a host of all services."""
    return data_dir / ("health" if part is None else f"endpoints/{part}.health")


class HealthFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name}.tmp")

    def write(self, reason: str) -> None:
        """Record that this process looked just now. `reason`: why it does not serve, or empty."""
        with contextlib.suppress(OSError):  # a full disk shows as a stale file
            self._beside.write_text(f"{' '.join(reason.split())}\n")
            self._beside.replace(self._path)


def trouble(path: Path) -> str:
    """The reason why the process that writes this file is not healthy; empty when it is."""
    try:
        with open(path) as file:
            reason, written = file.read().strip(), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return "it has not started yet"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    silent = time.time() - written
    if silent > STALE_SECONDS:
        return f"no word for {silent:.0f} s{f'; the last one: {reason}' if reason else ''}"
    return reason
