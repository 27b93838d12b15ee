"""Patience with somebody who should give a word from time to time.

Promises: only that silence counts during which we listened ourselves; after a pause of our own (a suspended machine, a
stopped process) everybody has a whole time again.
"""


class Patience:
    """Ask `over` again and again, several times in `seconds`; times are of one monotonic clock, in seconds."""

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._since = self._looked = now

    def over(self, now: float, *, heard: bool) -> bool:
        """True if the silence has lasted too long; `heard`: there was a heartbeat since the last call."""
        if heard or now - self._looked > self._seconds / 4:
            self._since = now
        self._looked = now
        return now - self._since > self._seconds
