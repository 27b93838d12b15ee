"""Calls of other services that a page waits for: they share one deadline, and an error names the service.

Promises: all calls of one `Asking` together take no longer than its seconds.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tutti.chassis.errors import DeadlineExceeded, Unavailable, Unimplemented

T = TypeVar("T")
SHORTEST_SECONDS = 0.05
"""The time that is left to a call after the deadline of those before it."""


class Asking:
    """Begins when it is made."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def ask(self, service: str, method: Callable[..., T], request: Any) -> T:
        """Call a method of a stub. Raises Unavailable where the service has no answer in time, and its own refusals."""
        left = max(self._end - time.monotonic(), SHORTEST_SECONDS)
        try:
            return method(request, timeout=left)
        except (DeadlineExceeded, Unavailable) as error:
            raise Unavailable(f"the service {service} did not answer within {self._seconds:g} s") from error
        except Unimplemented as error:
            raise Unavailable(f"the service {service} does not run") from error
