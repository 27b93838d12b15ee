"""Time as an argument.

Promises: nothing in Tutti reads the time but through a Clock, so that a simulation owns it.
"""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall time, UTC; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event at most so long; whether it was set."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start, self._elapsed = start, 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            self.advance(seconds)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        self._elapsed += seconds
