"""A real browser: the Chromium of this machine, installed where that can be done without asking."""

import contextlib
import os
from collections.abc import Iterator

from playwright.sync_api import Browser, expect, sync_playwright

from tests import packages
from tests.lacking import lacking

NAMES = ("chromium", "chromium-browser", "google-chrome")
HINT = "the page is looked at in a browser, and there is none: apt-get install chromium"
ARGUMENTS = ["--no-sandbox"] if os.getuid() == 0 else []  # its sandbox refuses to be started by root
WAIT_MILLISECONDS = 30_000.0
"""For what a page is expected to show: a busy machine needs longer than the 5 s of Playwright."""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """One that is closed at the end; until then an event loop runs in this thread, and no other can.

    Without one the test is skipped, and with CI set it fails.
    """
    path = packages.program(*NAMES, package="chromium")
    if path is None:
        lacking(HINT)
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
