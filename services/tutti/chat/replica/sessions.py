"""The sessions of a replica: each stream gets the events of its own requests.

Promises: a request belongs to the session that it was admitted to, and ends with it, so the engine never works for a
stream that is gone. For one thread, between the steps of the engine.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from tutti.chassis.errors import InvalidField, Refused
from tutti.chat.tokens import Event, Failed
from tutti.inference.engine import Chosen, Join, RequestRefused
from tutti.inference.errors import NotFinite, PromptTooLong
from tutti.inference.slotengine import SlotEngine

Tell = Callable[[list[Event]], None]
"""Called with the events of a step; it does not wait."""


class Sessions:
    """`most` is the number of requests that may wait or hold a slot at once."""

    def __init__(self, engine: SlotEngine, most: int) -> None:
        self._engine, self._most = engine, most
        self._sessions: dict[str, tuple[Tell, set[str]]] = {}

    def open(self, session: str, tell: Tell) -> None:
        self._sessions[session] = (tell, set())

    def close(self, session: str) -> None:
        """End a session and its requests; a session that is not open changes nothing."""
        _, requests = self._sessions.pop(session, (None, set[str]()))
        for request in requests:
            self._engine.cancel((session, request))

    def admit(self, session: str, request: Join) -> None:
        """Admit a request whose id is a string. Raises Refused, InvalidField."""
        if session not in self._sessions:
            raise Refused("STREAM_ENDED", f"the session {session!r} is not open: follow the replica again")
        if self._engine.in_progress >= self._most:
            raise Refused("REPLICA_FULL", f"{self._engine.in_progress} requests are in progress, as many as it accepts")
        _, requests = self._sessions[session]
        name = str(request.id)
        try:
            self._engine.admit(replace(request, id=(session, name)))
        except PromptTooLong as error:
            raise InvalidField("prompt", seen=f"{len(request.prompt)} tokens", expected=f"fewer: {error}") from None
        except RequestRefused as error:
            raise InvalidField("request", seen=name, expected=f"one that can begin: {error}") from None
        requests.add(name)

    def cancel(self, session: str, request: str) -> None:
        self._engine.cancel((session, request))

    @property
    def busy(self) -> bool:
        return self._engine.in_progress > 0

    def step(self) -> None:
        """Let the engine step, and give each session the events of its own requests."""
        told = defaultdict[str, list[Event]](list)
        try:
            for event in self._engine.step():
                name, request = cast("tuple[str, str]", event.id)
                told[name].append(replace(event, id=request))
        except NotFinite as error:
            for name, (_, requests) in self._sessions.items():
                told[name] = [Failed(each, str(error)) for each in sorted(requests)]
        for name, events in told.items():
            if name in self._sessions:
                tell, requests = self._sessions[name]
                requests.difference_update(each.id for each in events if not isinstance(each, Chosen))
                tell(events)
