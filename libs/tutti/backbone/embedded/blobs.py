"""Blobs in a folder: one file a key, linked into place.

Promises: as the port; several processes may share the folder; what a dead process left half-written is removed by the
next one that opens it.
"""

import errno
import itertools
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from blake3 import blake3

from tutti.backbone.blobs import (
    BadKey,
    BlobError,
    BlobExists,
    BlobMissing,
    Put,
    Stat,
    StoreFull,
    check_key,
    check_prefix,
)
from tutti.backbone.files import READ_SIZE, Bytes, Files, RealFiles, chunks, make_folders, overwrite, publish

_STAGING = ".staging"


class EmbeddedBlobs:
    def __init__(self, root: Path, *, files: Files | None = None) -> None:
        self._files = files or RealFiles()
        self._root = root
        self._staging = root / _STAGING
        self._durable: set[Path] = set()
        self._names = itertools.count()
        with _Named("open", root):
            make_folders(self._files, root)
            self._files.make_folder(self._staging)  # what is lost of it by a crash is not missed
            self._remove_strays()
            self._token = uuid.uuid4().hex
            lock = self._files.try_lock(self._staging / f"{self._token}.lock")
        if lock is None:
            raise BlobError(f"{self._staging}/{self._token}.lock is held by another process; open the store again")
        self._lock = lock

    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        target = self._path(key)
        with _Named("put", key):
            self._make_durable(target.parent)
            if not target.is_file():
                try:
                    publish(self._files, self._temporary(), target, self._content(data))
                    return Put.CREATED
                except FileExistsError:
                    if target.is_dir():
                        raise BadKey(f"{key!r} is a folder of other keys, so it cannot hold a blob") from None
            self._require_same(key, target, data)
            self._files.fsync_folder(target.parent)  # whoever linked it may have died before doing so
            return Put.SAME

    def get(self, key: str) -> bytes:
        with _Named("get", key):
            return self._files.read(self._path(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise BlobError(f"{key}: a range starts at 0 or later and has no negative length, got {start}, {length}")
        with _Named("get", key):
            data = self._files.read(self._path(key), start, length)
            if len(data) != length:
                size = self._files.size(self._path(key))
                raise BlobError(f"{key}: bytes {start} to {start + length} were asked for, it has {size}")
            return data

    def fetch(self, key: str, to: Path) -> None:
        source = self._path(key)
        with _Named("fetch", key):
            self._files.size(source)
            if not to.parent.is_dir():
                make_folders(self._files, to.parent)
            beside = to.with_name(f".{to.name}.{self._unique()}")
            overwrite(self._files, beside, to, chunks(self._files, source))

    def stat(self, key: str) -> Stat:
        with _Named("stat", key):
            path = self._path(key)
            if path.is_dir():
                raise BlobMissing(f"no blob {key!r}; it is a folder of others")
            return Stat(key, self._files.size(path))

    def list(self, prefix: str) -> Iterator[Stat]:
        check_prefix(prefix)
        yield from self._walk(self._root, "", prefix)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _Named("delete", key):
            try:
                self._files.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                return
            self._files.fsync_folder(path.parent)

    def close(self) -> None:
        self._lock.release()

    def _path(self, key: str) -> Path:
        check_key(key)
        return self._root / key

    def _temporary(self) -> Path:
        return self._staging / self._unique()

    def _unique(self) -> str:
        """A name that no other writer uses, a forked child included; its lock is the parent's."""
        return f"{self._token}.{os.getpid()}.{next(self._names)}"

    def _content(self, data: bytes | memoryview | Path) -> Iterator[Bytes]:
        if isinstance(data, Path):
            return chunks(self._files, data)
        view = memoryview(data).cast("B")
        return (view[i : i + READ_SIZE] for i in range(0, len(view), READ_SIZE))

    def _require_same(self, key: str, target: Path, data: bytes | memoryview | Path) -> None:
        ours, theirs = blake3(), blake3()
        for piece in self._content(data):
            ours.update(piece)
        for piece in chunks(self._files, target):
            theirs.update(piece)
        if ours.digest() != theirs.digest():
            raise BlobExists(
                f"{key} is written once and holds blake3 {theirs.hexdigest()}; refused to replace it by "
                f"{ours.hexdigest()}"
            )

    def _make_durable(self, folder: Path) -> None:
        """Create the folders down from the root; each one's name is synced once by every process that relies on it."""
        parent = self._root
        for name in folder.relative_to(self._root).parts:
            child = parent / name
            if child not in self._durable:
                try:
                    self._files.make_folder(child)
                except (FileExistsError, NotADirectoryError):
                    raise BadKey(f"{child.relative_to(self._root)} holds a blob, so it cannot be a folder") from None
                self._files.fsync_folder(parent)
                self._durable.add(child)
            parent = child

    def _remove_strays(self) -> None:
        """Remove what processes that are gone were writing; their locks went with them."""
        tokens: dict[str, list[str]] = {}
        for name, _ in self._files.list(self._staging):
            tokens.setdefault(name.partition(".")[0], []).append(name)
        for token, names in tokens.items():
            lock = self._files.try_lock(self._staging / f"{token}.lock")
            if lock is None:
                continue
            for name in {*names, f"{token}.lock"}:
                try:
                    self._files.unlink(self._staging / name)
                except FileNotFoundError:
                    continue
            lock.release()

    def _walk(self, folder: Path, above: str, prefix: str) -> Iterator[Stat]:
        try:
            entries = self._files.list(folder)
        except FileNotFoundError:
            return
        for key in sorted(f"{above}{name}/" if is_folder else f"{above}{name}" for name, is_folder in entries):
            if key == f"{_STAGING}/":
                continue
            if key.endswith("/"):
                if key.startswith(prefix) or prefix.startswith(key):
                    yield from self._walk(self._root / key, key, prefix)
            elif key.startswith(prefix):
                try:
                    yield Stat(key, self._files.size(self._root / key))
                except FileNotFoundError:
                    continue


class _Named:
    """Turns the operating system's errors into the port's, naming the key."""

    def __init__(self, verb: str, what: str | Path) -> None:
        self._verb, self._what = verb, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError):
            return
        if isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
            raise BlobMissing(f"no blob {self._what!s}" + _detail(error)) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"no space left to {self._verb} {self._what}: free some; nothing was written") from error
        raise BlobError(f"cannot {self._verb} {self._what}: {error}") from error


def _detail(error: OSError) -> str:
    return f" ({os.strerror(error.errno)}: {error.filename})" if error.errno else ""
