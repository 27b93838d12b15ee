"""Checks of what a service depends on, each bounded even if the dependency hangs.

Promises: `at` returns in time and names what it waits for; a look that hangs is waited for again, never doubled.
"""

import threading
import time
from collections.abc import Callable

from tutti.chassis.service import Finding

LOOK_SECONDS = 5.0
_SETTINGS = {"database": "database.url", "event log": "log.url", "blobs": "blobs.url"}
STORES = tuple(_SETTINGS)


def dependency(check: str, away: str) -> Finding:
    """The finding about the database, event log or blobs; `away` is why it is not available, empty if it is."""
    place = f"the server or disk that the setting {_SETTINGS[check]} names"
    return Finding(check, not away, f"{away}; look at {place}" if away else "it answers")


class DependencyChecks:
    """Safe for any thread."""

    def __init__(self, seconds: float = LOOK_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: dict[str, _Look] = {}

    def at(self, what: str, look: Callable[[], object]) -> str:
        """The reason why `what` is not available; empty if `look` returned."""
        with self._lock:
            running = self._running.get(what)
            if running is None or running.over.is_set():  # what ended since the last call is old news
                running = self._running[what] = _Look(what, look)
        if not running.over.wait(self._seconds):
            return f"{what}: no answer for {time.monotonic() - running.began:.0f} s"
        with self._lock:
            if self._running.get(what) is running:
                del self._running[what]
        return running.reason


class _Look:
    def __init__(self, what: str, look: Callable[[], object]) -> None:
        self.began, self.over, self.reason = time.monotonic(), threading.Event(), ""

        def work() -> None:
            try:
                look()
            except Exception as error:
                self.reason = f"{what}: {error}"
            self.over.set()

        threading.Thread(target=work, name=f"look at {what}", daemon=True).start()
