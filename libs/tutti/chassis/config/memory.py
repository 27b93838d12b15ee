"""Memory: what this machine has, and that it ran out, in the words that an operator reads.

Imports nothing of ours: ranks use it too.
"""

import os
from pathlib import Path

TOO_LITTLE = (
    "out of memory: raise the memory limit (of the container, or `ulimit -v`), or run fewer processes on this machine"
)
KILLED = "by the kernel, if memory ran out: see the memory limit of the container, and `dmesg`"
"""The likely sender of a SIGKILL that no process of ours has sent."""
VMSTAT = Path("/proc/vmstat")
LIMIT = Path("/sys/fs/cgroup/memory.max")
_SIGNS = ("can't allocate memory", "cannot allocate memory", "bad_alloc", "failed to map segment")


def ran_out(error: BaseException) -> bool:
    """True if an allocation failed. Native code, such as that of torch, says so in the words of its own errors."""
    words = str(error).lower()
    # A library on a noexec mount cannot be mapped either: "failed to map segment …: Operation not permitted".
    return isinstance(error, MemoryError) or (any(sign in words for sign in _SIGNS) and "not permitted" not in words)


def named(error: BaseException) -> str:
    """Return the type and words of an error, with advice if memory ran out."""
    words = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"{words}; {TOO_LITTLE}" if ran_out(error) else words


def machine_bytes(limit: Path = LIMIT) -> int:
    """Return the bytes of memory of this machine, or of its container if that has fewer."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(limit.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return machine


def kernel_kills(vmstat: Path = VMSTAT) -> int:
    """Return how many processes the kernel of this machine has killed since it started, because memory ran out.

    0 if the kernel does not say so.
    """
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return 0
    counts = (line.split() for line in lines)
    return next((int(words[1]) for words in counts if len(words) == 2 and words[0] == "oom_kill"), 0)
