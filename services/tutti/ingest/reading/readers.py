"""Readers: a folder, or a file, becomes a sorted stream of pages, and of files that hold many.

The stream depends on names and bytes alone, never on the order in which a file system lists them. Links to files are
followed inside the folder and refused outside, also where one takes the place of a file while the folder is read; a
folder inside it is read once, at its own place; a data directory of Tutti is no text of it; a page that can't be read
is a rejection, never the end.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone.ours import NotRegular, open_regular
from tutti.chassis.config.datadir import FOLDERS, is_data_dir
from tutti.chassis.config.roots import within
from tutti.ingest.reading.containers import Page, Reader, reader_of
from tutti.ingest.reading.rejections import Reason, Rejection

LEADS_OUT = "the link leads out of the input folder; copy the file into it"


class InputRootError(Exception):
    """The input cannot be read: `reason` says why, `expected` what it should be.

    The path of the root is in neither: this becomes the reason of a resource, and so an event.
    """

    def __init__(self, reason: str, expected: str = "a folder that this user may list, or a file") -> None:
        super().__init__(reason, expected)
        self.reason, self.expected = reason, expected

    def __str__(self) -> str:
        return f"input.path: {self.reason}; expected {self.expected}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a reader; sizes in bytes. The input must be in one of the `roots`, if there are any."""

    max_file_bytes: int = 50 << 20
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    """A file of many documents: its path as a page has it, where it lies, and how it is read."""

    path: str
    file: Path
    read: Reader


@dataclass(frozen=True, slots=True)
class _Entry:
    source: str
    path: str  # as the file system spells it, relative to the root


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    identity: tuple[int, int]
    entries: Iterator[os.DirEntry[str]]


def read_folder(root: Path, limits: Limits | None = None) -> Iterator[Page | Container | Rejection]:
    """Every file below `root`, by path; of a root that is a file, this file alone, by its name.

    Raises InputRootError when there is neither, when it is in none of the roots, and for a folder in which a platform
    keeps what it makes.
    """
    limits = limits or Limits()
    try:
        real_root = os.path.realpath(root, strict=True)
        if not within(real_root, limits.roots):
            raise InputRootError("its links lead out of the allowed folders", "a folder in one of ingest.roots")
        if _kept_by_a_platform(Path(real_root)):
            raise InputRootError("this one a platform writes to, as part of its data directory", "a folder of pages")
        if os.path.isdir(real_root):
            found = list(_walk(real_root))
        else:
            real_root, name = os.path.split(real_root)
            found = [_Entry(unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "replace")), name)]
    except OSError as error:
        raise InputRootError(error.strerror or type(error).__name__) from error
    found.sort(key=lambda item: (_name(item).encode("utf-8", "surrogateescape"), _spelling(item)))
    before = ""
    for item in found:
        if isinstance(item, Rejection):
            yield item
        elif item.source == before:
            yield Rejection(ascii(item.path), Reason.NAME_TAKEN, f"{item.source} in another Unicode form came before")
        else:
            before = item.source
            yield _read(real_root, item, limits)


def _name(item: _Entry | Rejection) -> str:
    return item.source if isinstance(item, _Entry) else item.path


def _spelling(item: _Entry | Rejection) -> bytes:
    return os.fsencode(item.path) if isinstance(item, _Entry) else b""


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _folder(root: str, path: str) -> _Folder:
    place = os.path.join(root, path)
    with os.scandir(place) as listing:
        return _Folder(path, _identity(place), iter(sorted(listing, key=lambda entry: os.fsencode(entry.name))))


def _walk(root: str) -> Iterator[_Entry | Rejection]:
    """The entries of a folder and of its subfolders, however deep they are."""
    above = [_folder(root, "")]
    while above:
        entry = next(above[-1].entries, None)
        if entry is None:
            above.pop()
            continue
        path = os.path.join(above[-1].path, entry.name)
        try:
            source = unicodedata.normalize("NFC", os.fsencode(path).decode()).replace(os.sep, "/")
        except UnicodeDecodeError:
            shown = os.fsencode(path).decode("utf-8", "backslashreplace").replace(os.sep, "/")
            yield Rejection(shown, Reason.NAME_NOT_UNICODE, "expected a name in UTF-8; rename the file")
            continue
        if entry.name.startswith("."):
            yield Rejection(source, Reason.HIDDEN, "its name begins with a dot, as those of tools do; rename it")
            continue
        try:
            found = _visit(root, path, source, entry, above)
        except OSError as error:
            reason = Reason.LINK_BROKEN if entry.is_symlink() else Reason.UNREADABLE
            found = Rejection(source, reason, error.strerror or type(error).__name__)
        if isinstance(found, _Folder):
            above.append(found)
        else:
            yield found


def _visit(
    root: str, path: str, source: str, entry: os.DirEntry[str], above: Sequence[_Folder]
) -> _Entry | _Folder | Rejection:
    if entry.is_symlink():
        target = os.path.realpath(entry.path, strict=True)
        if not within(target, (root,)):
            return Rejection(source, Reason.LINK_OUTSIDE, LEADS_OUT)
    if not entry.is_dir():
        return _Entry(source, path)
    identity = _identity(entry.path)
    if any(folder.identity == identity for folder in above):
        return Rejection(source, Reason.LINK_BROKEN, "the link leads back to a folder above it")
    if entry.is_symlink():  # folders that link to each other have more paths than can be walked
        place = os.path.relpath(os.path.realpath(entry.path), root)
        shown = os.fsencode(place).decode("utf-8", "backslashreplace")
        return Rejection(source, Reason.LINK_REPEATED, f"the link leads to {shown}, which is read at its own place")
    if is_data_dir(Path(entry.path)):
        return Rejection(source, Reason.DATA_DIRECTORY, "a data directory of Tutti, with its logs, databases and blobs")
    return _folder(root, path)


def _kept_by_a_platform(path: Path) -> bool:
    """True if it is a data directory, or is in a folder that every data directory has."""
    kept = [above.parent for above in (path, *path.parents) if above.name in FOLDERS]
    return any(map(is_data_dir, (path, *kept)))


def _read(root: str, entry: _Entry, limits: Limits) -> Page | Container | Rejection:
    try:
        real = os.path.realpath(os.path.join(root, entry.path), strict=True)
        if not within(real, (root,)):
            return Rejection(entry.source, Reason.LINK_OUTSIDE, LEADS_OUT)
        opened = open_regular(real)
    except NotRegular:
        return Rejection(entry.source, Reason.NOT_A_FILE, "expected a regular file")
    except OSError as error:
        return Rejection(entry.source, Reason.UNREADABLE, error.strerror or type(error).__name__)
    with opened as file:
        status = os.fstat(file.fileno())
        if (reader := reader_of(entry.source)) is not None:
            return Container(entry.source, Path(real), reader)
        try:
            data = file.read(limits.max_file_bytes + 1) if status.st_size <= limits.max_file_bytes else b""
        except OSError as error:
            return Rejection(entry.source, Reason.UNREADABLE, error.strerror or type(error).__name__)
    size = max(status.st_size, len(data))
    if size > limits.max_file_bytes:
        return Rejection(entry.source, Reason.TOO_LARGE, f"{size} bytes, at most {limits.max_file_bytes} are read")
    return Page(entry.source, data)
