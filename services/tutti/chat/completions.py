"""The route of chat completions, as OpenAI's clients call it.

The handler runs in the event loop of the HTTP server, the router in that of gRPC: pieces cross by a queue.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from json import dumps

from tutti.chassis.errors import NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import eventloop
from tutti.chat.answering import Piece, Record, Served, joined, pieces
from tutti.chat.bodies import Head, Usage
from tutti.chat.requests import ChatRequest, read
from tutti.chat.routing import Router
from tutti.web.pages import Api, Ask, Reply

ROLES = frozenset({Role.OPERATOR, Role.ENGINEER})


@dataclass(frozen=True)
class Model:
    """A deployment that serves: `name` is what clients call it."""

    name: str
    created: int
    served: Served
    router: Router
    fingerprint: str


class Completions:
    """`models` returns those that serve now, by name; `name` a new id of an answer, `seed` a random seed, `now` seconds
    since 1970.
    """

    def __init__(
        self,
        models: Callable[[], dict[str, Model]],
        *,
        name: Callable[[], str],
        seed: Callable[[], int],
        now: Callable[[], int],
    ) -> None:
        self._models, self._name, self._seed, self._now = models, name, seed, now

    def routes(self) -> list[Api]:
        return [
            Api("/v1/models", self._list, ROLES),
            Api("/v1/chat/completions", self._complete, ROLES, "POST", read=read),
        ]

    async def _list(self, ask: Ask) -> Reply:
        data = [
            {"id": each.name, "object": "model", "created": each.created, "owned_by": "tutti"}
            for _, each in sorted(self._models().items())
        ]
        return Reply({"object": "list", "data": data})

    async def _complete(self, ask: Ask) -> Reply:
        request: ChatRequest = ask.body
        model = self._models().get(request.model)
        if model is None:
            raise NotFound(f"the model {request.model!r}")
        ident = self._name()
        join = joined(model.served, request, id=ident, seed=self._seed(), salt=ask.principal.tenant)
        record, head = Record(join), Head(f"chatcmpl-{ident}", model.name, self._now(), model.fingerprint)
        headers = {"x-tutti-answer": f"answers/{ident}"}
        found = crossing(lambda: pieces(model.served, request, model.router, record))
        if request.stream:
            return Reply(self._events(request, head, record, found), headers=headers)
        finished = ""
        try:
            async for piece in found:
                finished = piece.finished or finished
        finally:
            await found.aclose()
        return Reply(head.whole(record.text, finished, usage_of(record)), headers=headers)

    async def _events(
        self, request: ChatRequest, head: Head, record: Record, found: AsyncGenerator[Piece, None]
    ) -> AsyncGenerator[str, None]:
        try:
            yield dumps(head.first())
            async for piece in found:
                if piece.text:
                    yield dumps(head.text(piece.text))
                if piece.finished:
                    yield dumps(head.last(piece.finished))
            if request.include_usage:
                yield dumps(head.usage(usage_of(record)))
            yield "[DONE]"
        finally:
            await found.aclose()


def usage_of(record: Record) -> Usage:
    return Usage(len(record.request.prompt), len(record.ids))


async def crossing(make: Callable[[], AsyncGenerator[Piece, None]]) -> AsyncGenerator[Piece, None]:
    """Yield here what a generator yields in the event loop of gRPC; to close this one closes it there."""
    here, queue = asyncio.get_running_loop(), asyncio.Queue[Piece | BaseException | None]()

    def put(said: Piece | BaseException | None) -> None:
        here.call_soon_threadsafe(queue.put_nowait, said)

    async def pump() -> None:
        events = make()
        try:
            async for each in events:
                put(each)
            put(None)
        except Exception as error:
            put(error)
        finally:
            await events.aclose()

    pumping = asyncio.run_coroutine_threadsafe(pump(), eventloop.event_loop())
    try:
        while (said := await queue.get()) is not None:
            if isinstance(said, BaseException):
                raise said
            yield said
    finally:
        pumping.cancel()
