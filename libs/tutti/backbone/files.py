"""Files: the one seam through which durable file writes go.

Promises: nothing is durable before its `fsync`, no name before the `fsync_folder` of its folder; every call is one
operation that a test can number, refuse, crash at or lose. `publish` and `overwrite` are the two ways to write a whole
file durably.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

Bytes = bytes | bytearray | memoryview
READ_SIZE = 1 << 20


class Handle(Protocol):
    """An open file that is being written."""

    def write(self, data: Bytes) -> None:
        """Write all of it at the end."""
        ...

    def fsync(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lock(Protocol):
    """A lock on a file; the kernel drops it with its process."""

    def release(self) -> None: ...


class Files(Protocol):
    def create(self, path: Path) -> Handle:
        """Open a new empty file. Raises FileExistsError."""
        ...

    def append(self, path: Path) -> Handle:
        """Open a file at its end, creating it when it is missing."""
        ...

    def truncate(self, path: Path, size: int) -> None: ...

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        """Create one folder whose parent exists; silent when it is there. The umask applies to its mode."""
        ...

    def fsync_folder(self, path: Path) -> None: ...

    def link(self, source: Path, target: Path) -> None:
        """A second name for a file. Raises FileExistsError."""
        ...

    def replace(self, source: Path, target: Path) -> None:
        """Rename, overwriting the target in silence."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a name. Raises FileNotFoundError."""
        ...

    def try_lock(self, path: Path, *, shared: bool = False) -> Lock | None:
        """Create the file if it is missing and lock it; None when another holder has it.

        A `shared` lock excludes only those that are not.
        """
        ...

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        """Bytes from `start`: all, or at most `length`."""
        ...

    def size(self, path: Path) -> int: ...

    def list(self, folder: Path) -> list[tuple[str, bool]]:
        """(name, whether it is a folder) of every entry, in no order."""
        ...


class RealHandle:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: Bytes) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self._descriptor, view) :]

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RealLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealFiles:
    """The operating system's files. The umask applies to the mode of new ones."""

    _mode = 0o666

    def create(self, path: Path) -> Handle:
        return RealHandle(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._mode))

    def append(self, path: Path) -> Handle:
        return RealHandle(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, self._mode))

    def truncate(self, path: Path, size: int) -> None:
        os.truncate(path, size)

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        path.mkdir(mode, exist_ok=True)

    def fsync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def try_lock(self, path: Path, *, shared: bool = False) -> RealLock | None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._mode)
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                if _is_still(descriptor, path):
                    return RealLock(descriptor)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read() if length is None else file.read(length)

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def list(self, folder: Path) -> list[tuple[str, bool]]:
        with os.scandir(folder) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _is_still(descriptor: int, path: Path) -> bool:
    """True if the path still names the locked file; its last holder may have removed it before we got the lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def make_folders(files: Files, path: Path, mode: int = 0o777) -> None:
    """Create a folder and its missing ancestors, each durably; one that is there may not be durable yet.

    The umask applies to its mode. Other accounts cannot write to the ancestors.
    """
    missing = []
    folder = path
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        files.make_folder(folder, mode if folder == path else 0o755)
        files.fsync_folder(folder.parent)
    if not missing:
        with contextlib.suppress(PermissionError):  # then another account made it, long ago
            files.fsync_folder(path.parent)


def publish(files: Files, temporary: Path, target: Path, content: Iterable[Bytes]) -> None:
    """Make `target` exist with this content, whole and durable, or not at all. Raises FileExistsError.

    `temporary` is a free name on the same file system; it is gone afterwards, except after a crash.
    """
    try:
        _write_synced(files, temporary, content)
        files.link(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            files.unlink(temporary)
    files.fsync_folder(target.parent)


def overwrite(files: Files, temporary: Path, target: Path, content: Iterable[Bytes]) -> None:
    """Make `target` have this content, whole and durable, whatever it had before.

    `temporary` belongs to the one writer of `target`: what a crash left there is written anew.
    """
    try:
        try:
            _write_synced(files, temporary, content)
        except FileExistsError:
            files.unlink(temporary)
            _write_synced(files, temporary, content)
        files.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            files.unlink(temporary)
        raise
    files.fsync_folder(target.parent)


def chunks(files: Files, path: Path) -> Iterator[bytes]:
    """The content of a file in pieces of at most READ_SIZE bytes."""
    start = 0
    while piece := files.read(path, start, READ_SIZE):
        yield piece
        start += len(piece)


def _write_synced(files: Files, path: Path, content: Iterable[Bytes]) -> None:
    with files.create(path) as handle:
        for piece in content:
            handle.write(piece)
        handle.fsync()
