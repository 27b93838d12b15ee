"""A real browser: the Chromium of this machine, installed where that can be done without asking."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

from tests.lacking import lacking

NAMES = ("chromium", "chromium-browser", "google-chrome")
HINT = "the page is looked at in a browser, and there is none: apt-get install chromium"
ARGUMENTS = ["--no-sandbox"] if os.getuid() == 0 else []  # its sandbox refuses to be started by root


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """One that is closed at the end; until then an event loop runs in this thread, and no other can.

    Without one the test is skipped, and with CI set it fails.
    """
    path = _found() or _installed()
    if path is None:
        lacking(HINT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def _found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _installed() -> str | None:
    """As root on Debian it is had as Postgres is: from the system's packages."""
    if os.getuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", *command], capture_output=True, timeout=600, check=False)
    return _found()
