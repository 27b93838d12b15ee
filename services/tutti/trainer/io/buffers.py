"""Snapshot buffers: files in shared memory that a rank writes and the I/O child reads.

They outlive both processes, so a snapshot that was handed over is not lost with either. The agent's next incarnation
removes what is left of the one before; where none can come because the state folder is gone, any agent does.
"""

import contextlib
import hashlib
import logging
import mmap
import os
import shutil
from pathlib import Path
from typing import Self

from tutti.backbone.files import Files, Lock
from tutti.backbone.ours import check, claim, open_regular

log = logging.getLogger(__name__)

_SHARED = Path("/dev/shm")  # noqa: S108
_MOST_PATH = 8192
_OWNER = "owner"  # locked while its agent lives; holds the state folder's path


class SharedBuffer:
    """A mapped buffer; `view` has exactly the bytes of a snapshot, which may be none."""

    def __init__(self, path: Path, size: int) -> None:
        with open(path, "r+b") as file:
            self._whole = memoryview(mmap.mmap(file.fileno(), max(size, 1)))
        self.view = self._whole[:size]

    def close(self) -> None:
        """Release the memory, or leave that to the last one who holds a view of it.

        While an error is handled its frames hold views: closing the map would raise BufferError in its place.
        """
        for view in (self.view, self._whole):
            with contextlib.suppress(BufferError):
                view.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class BufferPool:
    """The buffers of one node, a folder an attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, job: str, epoch: int, rank: int, *, size: int, count: int) -> list[Path]:
        """Buffers whose memory is reserved now, so that no later write can fail for want of it. Raises OSError."""
        folder = self._attempt(job, epoch)
        claim(folder)
        paths = [folder / f"{rank}.{index}" for index in range(count)]
        for path in paths:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, max(size, 1))
            finally:
                os.close(descriptor)
        return paths

    def release(self, job: str, epoch: int) -> None:
        shutil.rmtree(self._attempt(job, epoch), ignore_errors=True)

    def _attempt(self, job: str, epoch: int) -> Path:
        return self._folder / f"{job.removeprefix('jobs/')}.{epoch}"


def buffer_folder(state: Path, shared: Path = _SHARED) -> Path:
    """The folder of a node's buffers: in shared memory, named by the state folder; inside it if there is no shared
    memory.
    """
    name = hashlib.blake2s(str(state.resolve()).encode(), digest_size=8).hexdigest()
    if os.access(shared, os.W_OK):
        return shared / f"{_prefix()}{name}"
    return state / "buffers"


def own(folder: Path, state: Path, files: Files) -> Lock:
    """Clear a node's folder and mark it as that of the agent of `state`, until the lock is released or we die."""
    clear(folder)
    lock = files.try_lock(folder / _OWNER)
    assert lock is not None, "the state folder is locked, so its buffers are nobody else's"
    (folder / _OWNER).write_text(str(state.resolve()))
    return lock


def sweep(files: Files, shared: Path = _SHARED) -> list[Path]:
    """Remove the folders of agents that are dead and whose state folder is gone; those that were removed.

    A lock says who is dead, because agents of other containers share this memory but neither our pids nor our paths.
    """
    swept = []
    for folder in sorted(shared.glob(f"{_prefix()}*")):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # others may put anything there
            check(folder, folder.lstat(), 0)
            with open_regular(folder / _OWNER, own=True) as owner:
                state = owner.read(_MOST_PATH).decode()
            if not state or os.path.exists(state) or (lock := files.try_lock(folder / _OWNER)) is None:
                continue
            try:
                remove(folder)
            finally:
                lock.release()
            log.warning("%s was removed: its agent is dead, and %s is gone", folder, state)
            swept.append(folder)
    return swept


def _prefix() -> str:
    return f"tutti-{os.getuid()}-"


def remove(folder: Path) -> None:
    """Remove all buffers, those of a dead incarnation too; a folder of somebody else is refused."""
    with contextlib.suppress(FileNotFoundError):
        check(folder, folder.lstat(), 0)
    shutil.rmtree(folder, ignore_errors=True)


def clear(folder: Path) -> None:
    """An empty folder that only its owner can enter."""
    remove(folder)
    claim(folder)
