"""The answers in progress of each deployment, and whether another one may begin.

Promises: no more answers wait than are computed at once, so an answer that begins waits about as long as one takes;
others are refused before they cost anything. From any thread.
"""

import threading
from collections import Counter

from tutti.chassis.errors import Unavailable
from tutti.chat.models import Model
from tutti.chat.reasons import OVERLOADED

MOST_WAITING = 128
"""A replica accepts 256 that wait, which leaves room for a request of 128 choices that is the last to begin."""


class Capacity:
    """Counts answers, each choice of a request as one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_progress = Counter[str]()

    def check(self, model: Model) -> None:
        """Raises Unavailable where as many answers wait as may."""
        seen, most = self._in_progress[model.deployment], model.streams + min(model.streams, MOST_WAITING)
        if seen >= most:
            raise Unavailable(
                f"the model {model.name} makes {model.streams} answers at once, and {seen - model.streams} wait: "
                "try again later",
                reason=OVERLOADED,
            )

    def take(self, model: Model, count: int) -> None:
        """Count the answers of a request that begins. Raises Unavailable where as many wait as may."""
        with self._lock:
            self.check(model)
            self._in_progress[model.deployment] += count

    def free(self, model: Model, count: int) -> None:
        """Answers that were counted have ended, or did not begin."""
        with self._lock:
            self._in_progress[model.deployment] -= count
