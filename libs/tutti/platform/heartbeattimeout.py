"""Heartbeat timeouts that ignore pauses of this process, and double when they are missed.

Promises: silence counts only while this process listened; after a pause of its own (a suspended machine, a stopped
process) every timeout begins anew. A limit that was missed doubles for the next try, up to 15 minutes, so that a
process on a slow host is not killed for ever; it returns to its first value after the process was well for as long.
"""

MOST_SECONDS = 900.0
"""The longest limit that doubling leads to, and the time without a missed limit after which it falls back."""


class Doubling:
    """A factor for time limits: 1, and twice as much after each limit that was missed. Times are monotonic seconds."""

    def __init__(self, most: float = MOST_SECONDS) -> None:
        self._most, self._factor, self._since = most, 1.0, 0.0

    def limit(self, seconds: float) -> float:
        """Return the limit whose first value is `seconds`."""
        return max(seconds, min(seconds * self._factor, self._most))

    def missed(self, now: float) -> None:
        """Record that a limit was missed: the next try gets twice the time."""
        self._factor, self._since = min(2 * self._factor, self._most), now

    def well(self, now: float) -> bool:
        """Record a heartbeat; True if it makes the limits fall back."""
        back = self._factor > 1 and now - self._since >= self._most
        if back:
            self._factor = 1.0
        return back


class HeartbeatTimeout:
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
