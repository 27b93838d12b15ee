"""Things that are made once and kept for whoever asks next, up to a limit.

Promises: what was used longest ago goes first; whoever asks for one thing waits for nobody who asks for another.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Thing:
    value: Any
    weight: int


class Kept:
    """All together weigh at most `room`, or there is one that alone weighs more; those in the making come on top."""

    def __init__(self, room: int) -> None:
        self._room, self._lock = room, Lock()
        self._things: OrderedDict[str, _Thing] = OrderedDict()
        self._turns: dict[str, Lock] = {}

    def once(self, key: str, make: Callable[[], T], *, weight: int = 1) -> T:
        """Return the cached result of `make`, or call it; the key identifies the result. Room is made first."""
        with self._lock:
            if key in self._things:
                return self._known(key)  # type: ignore[no-any-return]
            turn = self._turns.setdefault(key, Lock())
        try:
            with turn:
                return self._made(key, make, weight)
        finally:
            with self._lock:
                self._turns.pop(key, None)

    def _made(self, key: str, make: Callable[[], T], weight: int) -> T:
        """Whoever waited for its turn finds what the one before it made."""
        with self._lock:
            if key in self._things:
                return self._known(key)  # type: ignore[no-any-return]
            self._leave(self._room - weight)
        made = make()
        with self._lock:
            self._leave(self._room - weight)
            self._things[key] = _Thing(made, weight)
        return made

    def _known(self, key: str) -> Any:
        self._things.move_to_end(key)
        return self._things[key].value

    def _leave(self, weight: int) -> None:
        """Let the oldest go until the rest weighs at most so much."""
        while self._things and sum(thing.weight for thing in self._things.values()) > weight:
            self._things.popitem(last=False)
