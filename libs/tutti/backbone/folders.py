"""Folders that are there whole or not at all."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from tutti.backbone.files import Files, make_folders


@contextlib.contextmanager
def new_folder(files: Files, target: Path) -> Iterator[Path]:
    """A folder beside `target` to put files in; at the end it is `target`, whole and durable, after an error gone.

    A crash leaves it under another name, which begins with a dot. Raises FileExistsError, before and after, when
    `target` is there and not an empty folder.
    """
    _require_free(files, target)
    make_folders(files, target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    files.make_folder(temporary)
    try:
        yield temporary
        for name, is_folder in files.list(temporary):
            assert not is_folder, f"{name}: expected files alone"
            with files.append(temporary / name) as handle:
                handle.fsync()
        files.fsync_folder(temporary)
        _require_free(files, target)
        files.replace(temporary, target)  # the system refuses a folder that was filled meanwhile
        files.fsync_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _require_free(files: Files, target: Path) -> None:
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir() or files.list(target)):
        raise FileExistsError(f"{target} is there and not an empty folder; name a new one")
