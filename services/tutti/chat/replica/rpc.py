"""The calls of a replica.

Promises: a message of a stream has whole steps, in their order; a stream that is read too slowly ends with an error,
and nothing of it is dropped in silence; a stream without tokens sends heartbeats, so that silence means a fault.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from tutti.chassis.errors import Refused
from tutti.chassis.rpc.call import Call
from tutti.chat.replica.stepping import Stepping
from tutti.chat.tokens import Event, join_of, message_of
from tutti.contracts.chat.v1 import (
    AdmitRequest,
    AdmitResponse,
    CancelRequest,
    CancelResponse,
    FollowRequest,
    FollowResponse,
    Opened,
)

HEARTBEAT_SECONDS = 0.25
MOST_UNREAD = 1 << 16
"""Events that wait for a reader, at most."""


class ReplicaApi:
    """`opened` describes the engine, `vocabulary` is its number of ids, `name_session` returns a new random name."""

    def __init__(self, stepping: Stepping, opened: Opened, vocabulary: int, name_session: Callable[[], str]) -> None:
        self._stepping, self._opened, self._vocabulary = stepping, opened, vocabulary
        self._name_session = name_session

    def Admit(self, request: AdmitRequest, call: Call) -> AdmitResponse:
        join = join_of(request, self._vocabulary)
        self._stepping.between(lambda sessions: sessions.admit(request.session, join)).result(call.deadline_seconds)
        return AdmitResponse()

    def Cancel(self, request: CancelRequest, call: Call) -> CancelResponse:
        asked = self._stepping.between(lambda sessions: sessions.cancel(request.session, request.request))
        asked.result(call.deadline_seconds)
        return CancelResponse()

    async def Follow(self, request: FollowRequest, call: Call) -> AsyncIterator[FollowResponse]:
        session, loop = self._name_session(), asyncio.get_running_loop()
        unread, arrived = deque[list[Event]](), asyncio.Event()

        def tell(events: list[Event]) -> None:
            unread.append(events)
            loop.call_soon_threadsafe(arrived.set)

        opening = self._stepping.between(lambda sessions: sessions.open(session, tell))
        try:
            await asyncio.wrap_future(opening)
            opened = Opened()
            opened.CopyFrom(self._opened)
            opened.session = session
            yield FollowResponse(opened=opened)
            while True:
                try:
                    await asyncio.wait_for(arrived.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield FollowResponse()
                    continue
                arrived.clear()
                events = [event for step in _taken(unread) for event in step]
                if len(events) > MOST_UNREAD:
                    raise Refused(
                        "READ_TOO_SLOWLY", f"{len(events)} events were not read; expected at most {MOST_UNREAD}"
                    )
                yield message_of(events)
        finally:
            self._stepping.between(lambda sessions: sessions.close(session))


def _taken(unread: deque[list[Event]]) -> list[list[Event]]:
    """Take out the steps so far; the thread of the engine may append others."""
    return [unread.popleft() for _ in range(len(unread))]
