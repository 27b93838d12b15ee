"""The replicas of one deployment: started, watched, and started again with backoff when they end.

Promises: there are as many as were asked for, or it is known which is missing and why; a replica that ended is counted
until another one serves in its place.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone.backoff import Backoff
from tutti.chassis.service import Home
from tutti.chat.children import ReplicaChild
from tutti.chat.standing import MOST_FAILURES, View

BACKOFF = Backoff(0.5, 15.0)
END_SECONDS = 5.0
LAST_BYTES = 4096


class GaveUp(Exception):
    """A replica ends again and again before it serves; the message says why and what to do."""


@dataclass
class Place:
    """The place of one replica, and what was in it: `failures` in a row since one served there."""

    name: str
    child: ReplicaChild | None = None
    failures: int = 0
    again_at: float = 0.0
    why: str = ""


class Fleet:
    """`prefix` begins the names of its replicas; `monotonic` is a clock in seconds; `arguments` are more of
    the command line of each."""

    def __init__(
        self,
        home: Home,
        prefix: str,
        checkpoint: Path,
        monotonic: Callable[[], float],
        arguments: Sequence[str] = (),
    ) -> None:
        self._home, self._prefix, self._checkpoint, self._monotonic = home, prefix, checkpoint, monotonic
        self._arguments = arguments
        self._places: list[Place] = []
        self.restarts = 0

    @property
    def addresses(self) -> list[str]:
        """Those of the replicas that have announced one."""
        return [found for each in self._places if each.child is not None and (found := each.child.address)]

    def keep(self, count: int) -> None:
        """Start what is missing of `count` replicas, unless it waits after a failure, and end what is too many.

        Raises GaveUp.
        """
        while len(self._places) > count:
            self._end([self._places.pop()])
        while len(self._places) < count:
            self._places.append(Place(f"{self._prefix}-{len(self._places) + 1}"))
        for place in self._places:
            if place.child is not None and place.child.hangs(self._monotonic()):
                place.child.end(0.0)
            if place.child is not None and (code := place.child.exit_code) is not None:
                self._ended(place, code)
            if place.child is None and self._monotonic() >= place.again_at:
                self.restarts += bool(place.failures)
                place.child = ReplicaChild(self._home.data_dir, place.name, self._checkpoint, self._arguments)

    def views(self, followed: Collection[str]) -> list[View]:
        """The replicas as they are, where `followed` are the addresses that the router follows."""
        found = []
        for place in self._places:
            address = place.child.address if place.child is not None else ""
            serves = bool(address) and address in followed
            if serves:
                place.failures = 0
            found.append(View(place.name, serves, _doing(place, address)))
        return found

    def close(self) -> None:
        self._end(self._places)
        self._places = []

    def _ended(self, place: Place, code: int) -> None:
        assert place.child is not None
        words = f"was ended by signal {-code}" if code < 0 else f"ended with {code}: {_last_line(place.child.log)}"
        place.child.end(0.0)
        place.child, place.failures, place.why = None, place.failures + 1, words
        place.again_at = self._monotonic() + BACKOFF.drawn(place.failures)
        if place.failures >= MOST_FAILURES:
            raise GaveUp(f"replica {place.name} {words}, {place.failures} times in a row before it served")

    def _end(self, places: Collection[Place]) -> None:
        running = [each.child for each in places if each.child is not None]
        for child in running:
            child.ask_to_end()
        for child in running:
            child.end(END_SECONDS)


def _doing(place: Place, address: str) -> str:
    if place.child is None:
        return f"{place.why}; it is started again"
    again = f" again, after it {place.why}" if place.why and place.failures else ""
    return f"is not followed yet{again}" if address else f"starts{again} (process {place.child.id.pid})"


def _last_line(log: Path) -> str:
    """The last line of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LAST_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError as error:
        return f"its log {log} cannot be read: {error.strerror}"
    return next((line.strip() for line in reversed(lines) if line.strip()), f"its log {log} is empty")
