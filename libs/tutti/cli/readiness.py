"""The wait of a command for a platform that starts.

Promises: it goes on while the host starts, or was killed for its silence and has more time now; a host that ends
otherwise is given up after a minute; who waits, and who gives up, names the process that is missing.
"""

from collections.abc import Callable
from pathlib import Path

from tutti.chassis.runtime.healthfile import awaits_upgrade
from tutti.cli.record import owner_of, process_of, stopping
from tutti.platform.heartbeattimeout import MOST_SECONDS

READY_SECONDS = 60.0
LONGEST_SECONDS = 2 * MOST_SECONDS
"""For a host on a slow machine: its supervisor doubles the time that it has."""
WORD_SECONDS = 10.0
HOST = "host"
SILENT = "no word for"


class Wait:
    """One wait for the platform of a data directory; `now` is a monotonic clock, `tell` shows a line to the user."""

    def __init__(self, data_dir: Path, *, now: Callable[[], float], tell: Callable[[str], None]) -> None:
        self._data_dir, self._now, self._tell = data_dir, now, tell
        self._began, self._told = now(), ""

    @property
    def seconds(self) -> float:
        return self._now() - self._began

    def over(self) -> bool:
        """Return whether to give up; tells what is waited for when that takes long, and when it changes."""
        missing = self.missing()
        if self.seconds > WORD_SECONDS and missing != self._told:
            self._told = missing
            self._tell(f"waits for the platform of {self._data_dir}: {missing}")
        return self.seconds > (LONGEST_SECONDS if self._starts() else READY_SECONDS)

    def missing(self) -> str:
        """Return the process that has to come, in words."""
        if reason := awaits_upgrade(self._data_dir):
            return reason
        owner, host = owner_of(self._data_dir), process_of(self._data_dir, HOST)
        if owner is None or not owner.alive():
            return "its supervisor has not started yet"
        if host is None:
            return f"the supervisor (process {owner.pid}) has not started the host yet"
        runs = f"the host (process {host.pid}) is not ready" if host.pid else "the host has ended, and is started again"
        last = f"; restarts: {host.restarts}, the last one after {host.exit}" if host.restarts else ""
        return runs + last

    def _starts(self) -> bool:
        host = process_of(self._data_dir, HOST)
        if host is None or stopping(self._data_dir) or awaits_upgrade(self._data_dir):
            return False
        owner = owner_of(self._data_dir)
        return owner is not None and owner.alive() and (not host.restarts or host.exit.startswith(SILENT))
