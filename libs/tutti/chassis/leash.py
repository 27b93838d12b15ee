"""The leash between a supervisor and its children: a pipe that ends when the supervisor does.

Promises: a child that holds its leash learns of its supervisor's death at once, even of a SIGKILL; imports nothing
heavy, so that any child can.
"""

import os
import threading
from collections.abc import Callable

VARIABLE = "TUTTI_SUPERVISOR_FD"


def hold(gone: Callable[[], None]) -> bool:
    """Call `gone` in a thread once the supervisor is gone; False when nobody supervises this process."""
    text = os.environ.pop(VARIABLE, "")
    if not text.isdigit():
        return False
    descriptor = int(text)
    os.set_inheritable(descriptor, False)

    def follow() -> None:
        while os.read(descriptor, 1):
            pass
        gone()

    threading.Thread(target=follow, name="leash", daemon=True).start()
    return True


class Leash:
    """The supervisor's end: children that are started with `descriptor` and `environment` are on it."""

    def __init__(self) -> None:
        # The writing end is never inherited, so that it ends with this process and nothing else.
        self.descriptor, self._mine = os.pipe()

    def environment(self) -> dict[str, str]:
        return {**os.environ, VARIABLE: str(self.descriptor)}

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._mine)
