"""LosingFiles: a disk that keeps only what was synced, and of the rest what a seed decides (tests).

Promises: at `crash()` each file has what its last fsync saw plus any subset of the writes since, each whole, torn or
dropped; each folder has the entries of its last fsync plus any subset of the changes since. That is what POSIX allows;
a program that passes for many seeds has an fsync everywhere it needs one.
"""

import os
import random
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tutti.backbone.files import Bytes, Handle, RealFiles, RealLock


@dataclass
class _Write:
    start: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        content += bytes(max(0, self.start - len(content)))
        content[self.start : self.start + len(self.data)] = self.data

    def torn(self, chance: random.Random) -> "_Write":
        return _Write(self.start, self.data[: chance.randrange(len(self.data) + 1)])


@dataclass
class _Truncate:
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content += bytes(self.size - len(content))


@dataclass
class _Inode:
    """A file's content at its last fsync, and what was done to it since."""

    synced: bytes = b""
    pending: list[_Write | _Truncate] = field(default_factory=list)

    def after_crash(self, chance: random.Random) -> bytes:
        content = bytearray(self.synced)
        for change in self.pending:
            fate = chance.random()
            if fate < 1 / 3:
                continue
            if fate < 2 / 3 and isinstance(change, _Write):
                change = change.torn(chance)
            change.apply(content)
        return bytes(content)


@dataclass
class _Change:
    """An entry of a folder appeared, or (inode None) went."""

    name: str
    inode: "_Inode | _Folder | None"


@dataclass
class _Folder:
    mode: int
    synced: "dict[str, _Inode | _Folder]" = field(default_factory=dict)
    pending: list[_Change] = field(default_factory=list)

    def now(self) -> "dict[str, _Inode | _Folder]":
        return _applied(self.synced, self.pending)

    def after_crash(self, chance: random.Random) -> "dict[str, _Inode | _Folder]":
        return _applied(self.synced, [change for change in self.pending if chance.random() < 0.5])


class LosingFiles(RealFiles):
    """Real files below `root`, whatever was there before being durable. Not thread-safe."""

    def __init__(self, seed: int | str, root: Path) -> None:
        self._chance = random.Random(seed)
        self._root_path = root
        self._locks: list[RealLock] = []
        self._crashes = 0
        self._root = _load(root)

    def crash(self) -> None:
        """Lose what was not synced, and all locks; open handles are dead. The files can be used again afterwards."""
        self._crashes += 1
        for lock in self._locks:
            lock.release()
        self._locks.clear()
        shutil.rmtree(self._root_path)
        _store(self._root, self._root_path, self._chance, {})
        self._root = _load(self._root_path)

    def create(self, path: Path) -> "LosingHandle":
        inner = super().create(path)
        inode = _Inode()
        self._enter(path, inode)
        return LosingHandle(self, inner, inode, 0)

    def append(self, path: Path) -> "LosingHandle":
        inner = super().append(path)
        inode = self._folder(path.parent).now().get(path.name)
        if inode is None:
            inode = _Inode()
            self._enter(path, inode)
        assert isinstance(inode, _Inode)
        return LosingHandle(self, inner, inode, path.stat().st_size)

    def truncate(self, path: Path, size: int) -> None:
        super().truncate(path, size)
        inode = self._folder(path.parent).now()[path.name]
        assert isinstance(inode, _Inode)
        inode.pending.append(_Truncate(size))

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        is_new = not path.exists()
        super().make_folder(path, mode)
        if is_new:
            self._enter(path, _Folder(_mode(path)))

    def fsync_folder(self, path: Path) -> None:
        super().fsync_folder(path)
        if path == self._root_path or self._root_path in path.parents:
            folder = self._folder(path)
            folder.synced, folder.pending = folder.now(), []

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        self._enter(target, self._folder(source.parent).now()[source.name])

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        moved = self._folder(source.parent).now()[source.name]
        self._enter(target, moved)
        self._enter(source, None)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._enter(path, None)

    def try_lock(self, path: Path, *, shared: bool = False) -> RealLock | None:
        is_new = not path.exists()
        lock = super().try_lock(path, shared=shared)
        if is_new:
            self._enter(path, _Inode())
        if lock is not None:
            self._locks.append(lock)
        return lock

    def _enter(self, path: Path, inode: "_Inode | _Folder | None") -> None:
        self._folder(path.parent).pending.append(_Change(path.name, inode))

    def _folder(self, path: Path) -> _Folder:
        found = self._root
        for name in path.relative_to(self._root_path).parts:
            child = found.now()[name]
            assert isinstance(child, _Folder)
            found = child
        return found


class LosingHandle:
    def __init__(self, files: LosingFiles, inner: Handle, inode: _Inode, end: int) -> None:
        self._files, self._inner, self._inode, self._end = files, inner, inode, end
        self._life = files._crashes

    def write(self, data: Bytes) -> None:
        self._check()
        self._inner.write(data)
        copy = bytes(memoryview(data).cast("B"))
        self._inode.pending.append(_Write(self._end, copy))
        self._end += len(copy)

    def fsync(self) -> None:
        self._check()
        self._inner.fsync()
        content = bytearray(self._inode.synced)
        for change in self._inode.pending:
            change.apply(content)
        self._inode.synced, self._inode.pending = bytes(content), []

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._life != self._files._crashes:
            raise OSError("this handle was opened before the crash")


def _applied(entries: "dict[str, _Inode | _Folder]", changes: list[_Change]) -> "dict[str, _Inode | _Folder]":
    result = dict(entries)
    for change in changes:
        if change.inode is None:
            result.pop(change.name, None)
        else:
            result[change.name] = change.inode
    return result


def _load(path: Path) -> _Folder:
    folder = _Folder(_mode(path))
    inodes: dict[int, _Inode] = {}
    for entry in sorted(os.scandir(path), key=lambda found: found.name):
        if entry.is_dir(follow_symlinks=False):
            folder.synced[entry.name] = _load(Path(entry.path))
        else:
            number = entry.inode()
            if number not in inodes:
                inodes[number] = _Inode(Path(entry.path).read_bytes())
            folder.synced[entry.name] = inodes[number]
    return folder


def _mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def _store(folder: _Folder, path: Path, chance: random.Random, written: dict[int, Path]) -> None:
    """Write out what is left; the names of one file stay names of one file."""
    path.mkdir()
    path.chmod(folder.mode)
    for name, entry in folder.after_crash(chance).items():
        if isinstance(entry, _Folder):
            _store(entry, path / name, chance, written)
        elif id(entry) in written:
            os.link(written[id(entry)], path / name)
        else:
            (path / name).write_bytes(entry.after_crash(chance))
            written[id(entry)] = path / name
