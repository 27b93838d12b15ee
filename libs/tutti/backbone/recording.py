"""RecordingFiles: every file operation numbered, and at each of them a crash, a full disk or a skipped fsync (tests).

Promises: operation n is the n-th call that can change what is on disk, counted from 0; after a crash every later
operation crashes too; nothing else differs from the files behind it.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tutti.backbone.files import Bytes, Files, Handle, Lock

T = TypeVar("T")


class Crashed(BaseException):
    """The process died here. Not an Exception: no handler may go on."""


@dataclass(frozen=True)
class Operation:
    number: int
    kind: str
    path: Path


class RecordingFiles:
    """`crash_at` names the operation before which it happens, `full` those without room; `skipped` are left out."""

    def __init__(
        self,
        inner: Files,
        *,
        crash_at: int | None = None,
        full: Callable[[Operation], bool] = lambda operation: False,
        skipped: Callable[[Operation], bool] = lambda operation: False,
    ) -> None:
        self._inner = inner
        self._crash_at, self._full, self._skipped = crash_at, full, skipped
        self.operations: list[Operation] = []

    def create(self, path: Path) -> Handle:
        return _RecordedHandle(self, path, self._do("create", path, lambda: self._inner.create(path)))

    def append(self, path: Path) -> Handle:
        return _RecordedHandle(self, path, self._do("append", path, lambda: self._inner.append(path)))

    def truncate(self, path: Path, size: int) -> None:
        self._do("truncate", path, lambda: self._inner.truncate(path, size))

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        self._do("make_folder", path, lambda: self._inner.make_folder(path, mode))

    def fsync_folder(self, path: Path) -> None:
        self._sync("fsync_folder", path, lambda: self._inner.fsync_folder(path))

    def link(self, source: Path, target: Path) -> None:
        self._do("link", target, lambda: self._inner.link(source, target))

    def replace(self, source: Path, target: Path) -> None:
        self._do("replace", target, lambda: self._inner.replace(source, target))

    def unlink(self, path: Path) -> None:
        self._do("unlink", path, lambda: self._inner.unlink(path))

    def try_lock(self, path: Path, *, shared: bool = False) -> Lock | None:
        return self._do("lock", path, lambda: self._inner.try_lock(path, shared=shared))

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        return self._inner.read(path, start, length)

    def size(self, path: Path) -> int:
        return self._inner.size(path)

    def list(self, folder: Path) -> list[tuple[str, bool]]:
        return self._inner.list(folder)

    def _note(self, kind: str, path: Path) -> Operation:
        operation = Operation(len(self.operations), kind, path)
        if self._crash_at is not None and operation.number >= self._crash_at:
            raise Crashed(f"before operation {operation.number}: {kind} {path}")
        self.operations.append(operation)
        if self._full(operation):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return operation

    def _do(self, kind: str, path: Path, call: Callable[[], T]) -> T:
        self._note(kind, path)
        return call()

    def _sync(self, kind: str, path: Path, call: Callable[[], None]) -> None:
        if not self._skipped(self._note(kind, path)):
            call()


class _RecordedHandle:
    def __init__(self, files: RecordingFiles, path: Path, inner: Handle) -> None:
        self._files, self._path, self._inner = files, path, inner

    def write(self, data: Bytes) -> None:
        self._files._do("write", self._path, lambda: self._inner.write(data))

    def fsync(self) -> None:
        self._files._sync("fsync", self._path, self._inner.fsync)

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
