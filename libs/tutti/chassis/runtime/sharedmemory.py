"""A trial of the shared memory of this machine, which pools of processes and the snapshots of ranks use.

Promises: nothing is left behind, also if this process is killed meanwhile.
"""

import mmap
import os
import shutil
import uuid
from pathlib import Path

from tutti.records.sizes import size

SHARED = Path("/dev/shm")  # noqa: S108 - where Linux has it
LEAST_BYTES = 16 << 20


class Lacking(Exception):
    """Shared memory cannot be used; the message says why, and what to do."""


def tried(folder: Path = SHARED, least: int = LEAST_BYTES) -> str:
    """Reserve `least` bytes, write them through one mapping and read them through another; what was seen.

    Raises Lacking.
    """
    if not folder.is_dir():
        return f"no {folder}, so snapshots are on disk"
    path = folder / f"tutti-preflight-{uuid.uuid4().hex}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            path.unlink()
            os.posix_fallocate(descriptor, 0, least)
            with mmap.mmap(descriptor, least) as ours, mmap.mmap(descriptor, least) as theirs:
                ours[:4], ours[-4:] = b"head", b"tail"
                same = theirs[:4] + theirs[-4:] == b"headtail"
        finally:
            os.close(descriptor)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise Lacking(
            f"{size(least)} in {folder} cannot be reserved: {error.strerror or error}; expected room for pools of "
            f"processes, and on nodes for two snapshots of the ranks: remove what fills it, or raise `shm_size` of the "
            f"container or the size of its memory volume"
        ) from None
    if not same:
        raise Lacking(f"{folder} is not shared between processes: mount a tmpfs there")
    return f"shared memory works ({size(free)} free)"
