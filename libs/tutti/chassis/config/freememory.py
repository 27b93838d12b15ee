"""The memory that processes of this machine, or of this container, can still take."""

from pathlib import Path

import psutil

UNLIMITED = 1 << 60
"""A limit above this is none: version 1 of cgroups writes a number of pages that no machine has."""
_VERSIONS = {
    "memory.max": ("", "memory.current", "inactive_file"),
    "memory.limit_in_bytes": ("memory", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By the file with the limit: the folder of its version, the file with the taken bytes, the part that is given back."""


def available_bytes(root: Path = Path("/")) -> int:
    """Return the bytes that the machine has available, or those that a limit of a cgroup leaves, where that is less.

    `root` has the folders `proc` and `sys`, for the limits.
    """
    return min([psutil.virtual_memory().available, *_left(root)])


def _left(root: Path) -> list[int]:
    """The bytes that each limit leaves, of the cgroup of this process and of all above it that can be seen."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = {fields[1]: fields[2] for line in lines if len(fields := line.split(":", 2)) == 3}
    found = []
    for limit, (version, taken, given_back) in _VERSIONS.items():
        top = root / "sys/fs/cgroup" / version
        place = Path(own.get(version, "/").lstrip("/"))
        for folder in (top / place, *(top / each for each in place.parents)):
            try:
                most = (folder / limit).read_text().strip()
                if most.isdigit() and int(most) < UNLIMITED:
                    stat = dict(each.split() for each in (folder / "memory.stat").read_text().splitlines())
                    used = int((folder / taken).read_text()) - int(stat.get(given_back, 0))
                    found.append(max(0, int(most) - used))
            except (OSError, ValueError):
                continue  # no such limit, or none that this process may see
    return found
