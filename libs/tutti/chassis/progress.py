"""The progress of long work, reported by the worker and read by waiters.

Promises: reporting is cheap; a report without a listener is dropped.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


class Abandoned(Exception):
    """Nobody wants the result of this work any more; raised where it reports its progress, so that it ends."""


SAY_SECONDS = 0.5
"""Between two words of one worker."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` units (0: nobody knows how many there are), such as "bytes" or "documents"."""

    done: int
    total: int
    unit: str


class Speaker:
    """Hands on what is said, at most every SAY_SECONDS."""

    def __init__(self, hear: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._hear, self._clock = hear, clock
        self._said_at = float("-inf")
        self._lock = threading.Lock()

    def say(self, done: int, total: int, unit: str) -> None:
        if self._clock() - self._said_at < SAY_SECONDS:
            return
        with self._lock:
            self._said_at = self._clock()
            self._hear(Progress(done, total, unit))


_speaker: Speaker | None = None


def listen(hear: Callable[[Progress], None] | None) -> None:
    """Let what is said in this process be heard from now on; None: by nobody."""
    global _speaker
    _speaker = None if hear is None else Speaker(hear)


def say(done: int, total: int = 0, *, unit: str) -> None:
    """Tell whoever waits for this process' work how far it is."""
    if _speaker is not None:
        _speaker.say(done, total, unit)
