"""A deadline that several calls for one page share.

Promises: the calls together take no longer than its seconds.
"""

import time
from collections.abc import Callable

from tutti.chassis.errors import DeadlineExceeded


class Deadline:
    """Begins when it is made; `monotonic` is the clock, in seconds."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._now = seconds, monotonic
        self._end = monotonic() + seconds

    def left(self) -> float:
        """Return the seconds for the next call. Raises DeadlineExceeded when there are none."""
        seconds = self._end - self._now()
        if seconds <= 0:
            raise DeadlineExceeded(f"the answers take longer than {self.seconds:g} s; load the page again")
        return seconds
