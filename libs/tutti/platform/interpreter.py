"""Python processes that this one starts.

Promises: none imports from the folder in which it was started. `python -m` looks there first, and so does a Python with
an empty or relative entry in PYTHONPATH; a `queue.py` in that folder would replace the one of the standard library.
Absolute entries of PYTHONPATH are kept: they are where Tutti may be installed.

`tools/house.py children` forbids libraries and services to start processes without this module.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

PATH, SAFE = "PYTHONPATH", "PYTHONSAFEPATH"
ARENAS, MOST_ARENAS = "MALLOC_ARENA_MAX", "2"
"""The limit of glibc for its arenas: memory that was freed in one is not used by the threads of another."""
TUNABLES, NONE_A_THREAD = "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"
"""glibc keeps memory that a thread freed for this thread alone; of 150 threads, that is several megabytes."""


def module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this Python."""
    return [sys.executable, "-P", "-m", name, *arguments]


def filled(template: Sequence[str], **values: object) -> list[str]:
    """Return a command with {python} and the names of `values` filled in."""
    return [part.format(python=sys.executable, **values) for part in template]


def isolated(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child.

    PYTHONSAFEPATH is -P for a command that somebody else wrote (`supervisor.agent_command`), and for the processes that
    the child starts. MALLOC_ARENA_MAX is ours unless the environment has one.
    """
    kept = {name: value for name, value in environment.items() if name != PATH}
    entries = [entry for entry in environment.get(PATH, "").split(os.pathsep) if os.path.isabs(entry)]
    return {ARENAS: MOST_ARENAS} | kept | ({PATH: os.pathsep.join(entries)} if entries else {}) | {SAFE: "1"}


def of_many_threads(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process with many threads: what one has freed is for all, unless `environment` says
    otherwise.
    """
    return {} if TUNABLES in environment else {TUNABLES: NONE_A_THREAD}


def start(
    command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process in an isolated environment, by default ours; `options` are those of subprocess.Popen."""
    return subprocess.Popen(command, env=isolated(os.environ if environment is None else environment), **options)
