"""Moments of a run, by name: (stage, n-th event, seed)."""

import random
import threading
from dataclasses import dataclass

LAST_DELAY_SECONDS = 0.3


@dataclass(frozen=True)
class Moment:
    """A while after the n-th event of a stage; the seed says how long."""

    stage: str
    nth: int
    seed: int

    def __str__(self) -> str:
        return f"{self.stage}-{self.nth}-{self.seed}"

    @property
    def delay(self) -> float:
        """Seconds after the event."""
        return random.Random(str(self)).uniform(0, LAST_DELAY_SECONDS)

    def linger(self) -> None:
        """From the event to the moment."""
        threading.Event().wait(self.delay)
