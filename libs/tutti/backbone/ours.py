"""Folders and files that no other account of this machine can read, fill or put in our way.

Promises: a folder is taken only if it is ours and closed to others, and says which command closes it; opening a file
never waits, follows no link at its name, and opens nothing but a regular file.
"""

import errno
import os
import shlex
import stat
from pathlib import Path
from typing import BinaryIO

from tutti.backbone.files import Files, RealFiles, make_folders

PRIVATE = 0o700
OTHERS, OTHERS_WRITE = 0o077, 0o022


class NotOurs(PermissionError):
    """The folder or file belongs to another account, or another account can use it; `strerror` says what to do."""

    def __init__(self, path: Path | str, seen: str, remedy: str) -> None:
        super().__init__(errno.EPERM, f"{path} {seen}: {remedy}")


class NotRegular(OSError):
    """A pipe, a device, a socket or a folder, where a regular file is expected."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


class OwnFiles(RealFiles):
    """Files of the operating system whose new files and folders no other account can use, whatever the umask."""

    _mode = 0o600

    def make_folder(self, path: Path, mode: int = PRIVATE) -> None:
        super().make_folder(path, mode & PRIVATE)


def close_to_others() -> None:
    """Let this process and its children make files and folders that no other account can use."""
    os.umask(OTHERS)


def claim(folder: Path, *, files: Files | None = None, close: bool = False, links: bool = False) -> None:
    """Make a folder with mode 0700, or take one that is ours and has it.

    One that others can only read is closed to them if `close`; one that they can write to may have something of theirs.
    The name may be a link, to a folder that is ours, if `links`. Raises NotOurs, NotADirectoryError.
    """
    if links or not folder.is_symlink():
        make_folders(files or RealFiles(), folder, PRIVATE)
    seen = os.stat(folder, follow_symlinks=links)
    check(folder, seen, OTHERS_WRITE if close else OTHERS)
    if stat.S_IMODE(seen.st_mode) != PRIVATE:
        os.chmod(folder, PRIVATE)


def check(folder: Path, seen: os.stat_result, forbidden: int = OTHERS) -> None:
    """Raise NotOurs unless it is a folder of this account whose mode has none of the forbidden bits."""
    mode = stat.S_IMODE(seen.st_mode)
    if stat.S_ISLNK(seen.st_mode):
        raise NotOurs(folder, "is a link, which another account may have made", "remove it")
    if not stat.S_ISDIR(seen.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if seen.st_uid != os.geteuid():
        raise NotOurs(
            folder,
            f"belongs to the account {seen.st_uid}, and this process to {os.geteuid()}",
            "give a folder of your own",
        )
    if mode & forbidden:
        raise NotOurs(
            folder,
            f"has mode {mode:04o}, so that other accounts can use it; expected 0700",
            f"check that all in it is yours, then run `chmod 700 {shlex.quote(str(folder))}`",
        )


def open_regular(path: str | Path, *, own: bool = False) -> BinaryIO:
    """Return a regular file, open for reading; `own`: only one of this account.

    Raises OSError; NotRegular for anything that is no file, ELOOP for a link, NotOurs.
    """
    # Not blocking: opening a pipe would wait for its writer for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise NotRegular(path)
        if own and seen.st_uid != os.geteuid():
            raise NotOurs(path, f"belongs to the account {seen.st_uid}", "remove it")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
