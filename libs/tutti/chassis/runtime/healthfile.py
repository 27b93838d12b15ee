"""The health file: what a process reports about itself to a health check outside of it.

Promises: one line, empty while the process serves; its modification time is the last time the process looked, so a
process that hangs is unhealthy too. The health check of a container reads it (deploy/docker/keeper.c).
"""

import contextlib
import time
from pathlib import Path

UPGRADE = "tutti migrate"
"""The command that a process which waits for an upgrade of its tables names."""
FRESH_SECONDS = 15.0


def health_path(data_dir: Path, part: str | None) -> Path:
    """The health file of a service that runs alone or of an agent; without `part`, that of a host of all services."""
    return data_dir / ("health" if part is None else f"endpoints/{part}.health")


def awaits_upgrade(data_dir: Path) -> str:
    """The reason why a process of this data directory waits for an upgrade of its tables; empty if none does."""
    for path in (health_path(data_dir, None), *sorted((data_dir / "endpoints").glob("*.health"))):
        with contextlib.suppress(OSError):
            reason = path.read_text().strip()
            if UPGRADE in reason and time.time() - path.stat().st_mtime < FRESH_SECONDS:
                return reason
    return ""


class HealthFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name}.tmp")

    def write(self, reason: str) -> None:
        """Record that this process looked just now. `reason`: why it does not serve, or empty."""
        with contextlib.suppress(OSError):  # a full disk shows as a stale file
            self._beside.write_text(f"{' '.join(reason.split())}\n")
            self._beside.replace(self._path)
