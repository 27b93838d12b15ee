"""Files that send a browser to a login link.

Promises: the link is in no argument of a process, which every local user can read; only its owner can read the file; it
is removed once the link was used, after a deadline, and if this process was killed, when the next link is opened.
"""

import contextlib
import html
import os
import re
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

PREFIX, SUFFIX = "tutti-login-", ".html"
SECONDS = 30.0
"""For a browser to start and to open the link."""
LOOK_SECONDS = 0.5
STALE_SECONDS = 600.0
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Log in</title>
<p><a href="{url}">Log in to Tutti</a></p>
</html>
"""
_DOWNLOADS = re.compile(r'^XDG_DOWNLOAD_DIR="\$HOME/([^"]+)"', re.MULTILINE)
_OTHERS_WRITE = 0o002


def browse(url: str, used: Callable[[], bool], seconds: float = SECONDS) -> bool:
    """Open a login link in a browser, and wait until it was used or the deadline passed; False if no browser starts.

    Raises OSError if the file cannot be written.
    """
    with redirecting(url) as path:
        if not webbrowser.open(path.as_uri()):
            return False
        deadline = time.monotonic() + seconds
        while not used() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        return True


@contextlib.contextmanager
def redirecting(url: str) -> Iterator[Path]:
    """A file that redirects to `url`, removed at the end. Raises OSError."""
    folder = _folder()
    _remove_stale(folder)
    descriptor, name = tempfile.mkstemp(SUFFIX, PREFIX, folder)  # mode 0600
    path = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(PAGE.format(url=html.escape(url)))
        yield path
    finally:
        path.unlink(missing_ok=True)


def _folder() -> Path:
    """Return a folder that a browser in a sandbox can read, in which others cannot replace files.

    Flatpak lets browsers read the user's downloads, snap all of the home directory except hidden folders; both give
    them a /tmp of their own.
    """
    home = Path.home()
    configured = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "user-dirs.dirs"
    names = ["Downloads", ""]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        names = [*_DOWNLOADS.findall(configured.read_text("utf-8")), *names]
    for folder in (home / name for name in names):
        with contextlib.suppress(OSError):
            if folder.is_dir() and os.access(folder, os.W_OK) and not folder.stat().st_mode & _OTHERS_WRITE:
                return folder
    raise PermissionError(f"neither {home} nor its downloads is a folder in which you alone can write")


def _remove_stale(folder: Path) -> None:
    """Remove files of commands that were killed; their links have expired."""
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - STALE_SECONDS:
                path.unlink()
