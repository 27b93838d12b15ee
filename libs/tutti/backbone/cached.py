"""Blobs of a store that is far away, kept on the local disk for the next time.

Promises: only blobs whose key ends in the digest of their bytes are kept, and their bytes are compared with it whenever
they are taken from here; what was used longest ago goes when there is no room; processes may share a folder. Nothing
here is the only copy of anything.
"""

import contextlib
import errno
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, runtime_checkable
from uuid import uuid4

from blake3 import blake3

from tutti.backbone.blobs import BlobError, Blobs, Put, Stat
from tutti.backbone.files import Files, RealFiles, chunks, make_folders, overwrite

AHEAD = 4
"""Blobs that are brought before they are asked for."""
ABANDONED_SECONDS = 24 * 3600.0
_NAMED = re.compile(r".*/([0-9a-f]{64})(\.[A-Za-z0-9._-]+)?")


@runtime_checkable
class Prefetching(Protocol):
    """A store that is glad to know what will be asked for."""

    def prefetch(self, keys: Sequence[str]) -> None:
        """Begin to bring what will be fetched soon, in this order; a hint that may come to nothing."""
        ...


class CachedBlobs:
    """`inner` behind a folder of at most `most_bytes`.

    `found_bytes` were taken from the folder, `brought_bytes` had to be brought, since this process began.
    """

    def __init__(self, inner: Blobs, folder: Path, *, most_bytes: int, files: Files | None = None) -> None:
        self.found_bytes = self.brought_bytes = 0
        self._inner, self._folder, self._most = inner, folder, most_bytes
        self._files = files or RealFiles()
        self._lock = threading.Lock()
        self._wanted, self._coming = deque[str](), dict[str, Future[None]]()
        self._threads = ThreadPoolExecutor(AHEAD, thread_name_prefix="prefetch")
        make_folders(self._files, folder)
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if path.name.startswith(".") and path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    path.unlink()

    def fetch(self, key: str, to: Path) -> None:
        named = _NAMED.fullmatch(key)
        if named is None:
            self._inner.fetch(key, to)
            return
        coming = self._next(key)
        if coming is not None:
            with contextlib.suppress(BlobError, OSError):
                coming.result()
        size = self._take(named[1], to)
        if size is not None:
            if coming is None:
                self.found_bytes += size
            return
        self._bring(key)
        # What does not fit, or is damaged where it comes from, is not kept: the caller looks at its bytes too.
        if self._take(named[1], to) is None:
            self._inner.fetch(key, to)

    def prefetch(self, keys: Sequence[str]) -> None:
        with self._lock:
            self._coming = {key: each for key, each in self._coming.items() if not each.done()}
            named = ((key, found) for key in keys if (found := _NAMED.fullmatch(key)))
            self._wanted = deque(key for key, found in named if not (self._folder / found[1]).exists())
        self._next("")

    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        return self._inner.put_if_absent(key, data)

    def get(self, key: str) -> bytes:
        return self._inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._inner.get_range(key, start, length)

    def stat(self, key: str) -> Stat:
        return self._inner.stat(key)

    def list(self, prefix: str) -> Iterator[Stat]:
        return self._inner.list(prefix)

    def delete(self, key: str) -> None:
        if named := _NAMED.fullmatch(key):
            (self._folder / named[1]).unlink(missing_ok=True)
        self._inner.delete(key)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._inner.close()

    def _next(self, key: str) -> Future[None] | None:
        """Start the next fetches, and return the fetch that brings this blob; None if none does."""
        with self._lock:
            with contextlib.suppress(ValueError):
                self._wanted.remove(key)
            found = self._coming.pop(key, None)
            while self._wanted and len(self._coming) < AHEAD:
                following = self._wanted.popleft()
                self._coming[following] = self._threads.submit(self._bring, following)
            return found

    def _take(self, digest: str, to: Path) -> int | None:
        """Its bytes when they were there and were right."""
        held = self._folder / digest
        try:
            if _digest_of(held) != digest:
                held.unlink()
                return None
            make_folders(self._files, to.parent)
            self._place(held, to)
        except FileNotFoundError:  # it never was here, or another process has just made room
            return None
        with contextlib.suppress(FileNotFoundError):
            os.utime(held)
        return to.stat().st_size

    def _place(self, held: Path, to: Path) -> None:
        beside = to.with_name(f".{to.name}.{uuid4().hex}")
        try:
            self._files.link(held, beside)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
            overwrite(self._files, beside, to, chunks(self._files, held))
            return
        self._files.replace(beside, to)
        self._files.fsync_folder(to.parent)

    def _bring(self, key: str) -> None:
        """Bring a blob into the folder where it fits. Raises BlobError."""
        size = self._inner.stat(key).size
        if size > self._most:
            return
        held = self._folder / key.rpartition("/")[2].partition(".")[0]
        try:
            self._inner.fetch(key, held)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._make_room(0, held)
            return
        with contextlib.suppress(FileNotFoundError):
            held.chmod(0o444)
        self.brought_bytes += size
        self._make_room(self._most, held)

    def _make_room(self, most: int, kept: Path) -> None:
        """Remove what was used longest ago until the rest has `most` bytes."""
        found = []
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if not path.name.startswith("."):
                    found.append((path == kept, path.stat().st_mtime_ns, path.stat().st_size, path))
        total = sum(size for _, _, size, _ in found)
        for _, _, size, path in sorted(found):
            if total <= most:
                return
            path.unlink(missing_ok=True)
            total -= size


def _digest_of(path: Path) -> str:
    state = blake3()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()
