"""Folders of this machine that requests may name paths in, and the opening of a file at such a path.

Promises: a path is compared where its links lead; opening a file never waits, whatever is at its path.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal


class NotRegular(OSError):
    """A pipe, a device, a socket or a folder, where a regular file is expected."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)


class Roots:
    """`folders` that a path must be in, as the setting lists them; without any, the owner of the platform may name
    every path, and nobody else one.
    """

    def __init__(self, folders: Sequence[str], setting: str) -> None:
        self.folders, self._setting = tuple(os.path.realpath(each) for each in folders), setting

    def resolved(self, field: str, path: str | Path, kind: str, principal: Principal) -> str:
        """The path with its links followed; nothing needs to be there. Raises InvalidField if it is in no root.

        `kind` is the noun of the message: a folder, a file. `principal` names the path.
        """
        real = os.path.realpath(path)
        if not self.folders and not principal.is_owner:
            expected = (
                f"a {kind} under a folder of the setting {self._setting}, which the operator of the platform sets"
            )
            raise InvalidField(field, seen=path, expected=expected)
        if not within(real, self.folders):
            expected = f"a {kind} under {', '.join(self.folders)} ({self._setting})"
            raise InvalidField(field, seen=path, expected=expected)
        return real


def within(real: str, folders: Sequence[str]) -> bool:
    """True if a path without links is in one of these folders, or if there are none."""
    return not folders or any(os.path.commonpath((each, real)) == each for each in folders)


def open_regular(real: str) -> BinaryIO:
    """A regular file, open for reading. Raises OSError; NotRegular for anything else, ELOOP for a link."""
    # Not blocking: opening a pipe would wait for its writer for ever.
    handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegular(real)
    return os.fdopen(handle, "rb")
