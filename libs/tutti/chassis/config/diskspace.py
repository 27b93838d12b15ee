"""Free disk space of a folder: writers wait when it is short, and report why."""

import errno
import shutil
from pathlib import Path

from tutti.records.sizes import size

LEAST_BYTES = 32 << 20


def is_full(error: BaseException) -> bool:
    """True if a disk or a quota is full: a transient error."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def wanted(path: Path, count: int) -> str:
    """In words, what a write of `count` bytes waits for, and what to do."""
    return f"{count} bytes on the disk of {path}, which is full: free some space"


def little_left(path: Path) -> str:
    """In words, that the disk of a folder is full or nearly so, and what to do; empty when there is room."""
    try:
        free = shutil.disk_usage(path).free
    except OSError:
        return ""
    if free >= LEAST_BYTES:
        return ""
    return f"the disk of {path} has {size(free)} left: what cannot be written waits; free some space"
