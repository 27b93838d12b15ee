"""A completion as far as it came, whichever replicas made it.

Promises: its tokens are numbered without a gap, each once; so what a replica says late or twice changes nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tutti.chat.tokens import Event
from tutti.inference.engine import Chosen, Join


class Gap(Exception):
    """A replica left tokens out."""


@dataclass(frozen=True)
class Move:
    """A completion left the replica at `address` after `at` tokens, for `reason`, and continued at another."""

    at: int
    address: str
    reason: str


class Progress:
    """`request` as it was asked for; tokens that it was given are part of its completion."""

    def __init__(self, request: Join) -> None:
        self._request, self._tokens, self.ended = request, [*request.given], False

    @property
    def count(self) -> int:
        """The number of tokens so far."""
        return len(self._tokens)

    def take(self, events: Iterable[Event]) -> Iterator[Event]:
        """Add the events of a replica and yield those that are new. Raises Gap after those before it."""
        for event in events:
            if self.ended:
                return
            if isinstance(event, Chosen):
                if event.at > len(self._tokens):
                    raise Gap(f"token {event.at} came after {len(self._tokens)} tokens")
                if event.at < len(self._tokens):
                    continue
                self._tokens.append(event.token)
            else:
                self.ended = True
            yield event

    def onward(self) -> Join:
        """The request that another replica continues from here."""
        return replace(self._request, given=tuple(self._tokens))
