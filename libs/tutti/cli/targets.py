"""Output files and folders that a user named.

Promises: what cannot be written there is told by the name that they gave, and not by that of a part of it.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from tutti.chassis.config.diskspace import is_full
from tutti.cli.failures import Failure

IS_FILE = (FileExistsError, NotADirectoryError)


@contextlib.contextmanager
def written_to(target: Path, option: str) -> Iterator[None]:
    """Around what writes it. Raises click.BadParameter where something is there, Failure where it cannot be written."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileExistsError) and error.errno is None:  # not the system's word, but ours
            raise click.BadParameter(str(error), param_hint=f"'{option}'") from error
        if not _below(error.filename, target):
            raise
        if is_full(error):
            raise Failure(f"{target} cannot be written: the disk is full; free some space, and try again") from error
        why = "a part of its path is a file" if isinstance(error, IS_FILE) else error.strerror
        raise Failure(f"{target} cannot be written: {why}; name another place with {option}") from error


def _below(name: object, target: Path) -> bool:
    """True if the error is about a path beside the target, above it, or in it."""
    if not isinstance(name, str):
        return False
    path, parent = Path(name).absolute(), target.absolute().parent
    return path.is_relative_to(parent) or parent.is_relative_to(path)
