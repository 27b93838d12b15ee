"""Folders of this machine that requests may name paths in.

Promises: a path is compared where its links lead.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal


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
