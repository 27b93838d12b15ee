"""Calls of other services that a page waits for: they share one deadline, and an error names the service.

Promises: all calls of one `Asking` together take no longer than its seconds.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tutti.chassis.errors import DeadlineExceeded, Unavailable, Unimplemented
from tutti.chassis.rpc.deadline import Deadline

T = TypeVar("T")


class Asking:
    """Begins when it is made."""

    def __init__(self, seconds: float) -> None:
        self._deadline = Deadline(seconds)

    def ask(self, service: str, method: Callable[..., T], request: Any) -> T:
        """Call a method of a stub. Raises Unavailable where the service has no answer in time, and its own refusals."""
        try:
            return method(request, timeout=self._deadline.left())
        except (DeadlineExceeded, Unavailable) as error:
            raise Unavailable(f"the service {service} did not answer within {self._deadline.seconds:g} s") from error
        except Unimplemented as error:
            raise Unavailable(f"the service {service} does not run") from error
