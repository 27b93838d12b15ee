"""The routes of the models and of chat completions, as OpenAI's clients call them.

The handlers run in the event loop of the HTTP server, answers in that of gRPC: pieces cross by a queue.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps

from tutti.chassis.errors import NotFound, Refused, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import eventloop
from tutti.chat.answering import Record, Served, joined
from tutti.chat.bodies import Head, Usage
from tutti.chat.journal import Begun, Journal
from tutti.chat.leases import Cost, Lease, Leases
from tutti.chat.making import Crossing
from tutti.chat.reasons import RELEASE_WITHDRAWN
from tutti.chat.recording import Recording
from tutti.chat.requests import ChatRequest, read
from tutti.chat.routing import Router
from tutti.web.pages import Api, Ask, Reply

ROLES = frozenset({Role.OPERATOR, Role.ENGINEER, Role.CLIENT})
BEGIN_SECONDS = 5.0
"""A request whose beginning cannot be journaled in this time is refused."""


@dataclass(frozen=True)
class Model:
    """A deployment that serves: `name` is what clients call it, and so are its resource and its checkpoint.

    `created` is in seconds since 1970.
    """

    name: str
    deployment: str
    checkpoint: str
    created: int
    served: Served
    router: Router
    fingerprint: str

    def is_called(self, name: str) -> bool:
        return name in (self.name, self.deployment, self.checkpoint)


class Completions:
    """`models` returns those that serve now; `name` a new id of an answer, `seed` a random seed, `now` seconds since
    1970. `refusal` is the reason why a model does not answer any more, by its name.
    """

    def __init__(
        self,
        models: Callable[[], Sequence[Model]],
        journal: Journal,
        leases: Leases,
        *,
        name: Callable[[], str],
        seed: Callable[[], int],
        now: Callable[[], int],
        refusal: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._models, self._journal, self._leases = models, journal, leases
        self._name, self._seed, self._now, self._refusal = name, seed, now, refusal

    def routes(self) -> list[Api]:
        return [
            Api("/v1/models", self._list, ROLES),
            Api("/v1/chat/completions", self._complete, ROLES, "POST", read=read),
        ]

    async def _list(self, ask: Ask) -> Reply:
        data = [
            {"id": each.name, "object": "model", "created": each.created, "owned_by": "tutti"}
            for each in sorted(self._models(), key=lambda each: each.name)
        ]
        return Reply({"object": "list", "data": data})

    async def _complete(self, ask: Ask) -> Reply:
        request: ChatRequest = ask.body
        model, ident = self._called(request.model), self._name()
        asked = partial(joined, id=ident, seed=self._seed(), salt=ask.principal.tenant)
        join = await asyncio.to_thread(asked, model.served, request)  # a template of others runs in a process
        begun = Begun(
            f"answers/{ident}",
            ask.principal.user,
            ask.principal.tenant,
            model.deployment,
            model.checkpoint,
            request,
            join.sampling.seed,
        )
        lease = await self._leases.reserve(ask.principal, begun.answer, join, model.served.length - len(join.prompt))
        await self._begin(begun, lease)
        record, head = Record(join), Head(f"chatcmpl-{ident}", model.name, self._now(), model.fingerprint)
        headers = {"x-tutti-answer": begun.answer, **lease.headers}
        recording = Recording(self._journal, model.served, model.router, begun, record)
        found = Crossing(
            lambda show: self._leases.run(lease, model.deployment, recording.run, lambda: cost_of(record), show)
        )
        if request.stream:
            return Reply(self._events(request, head, record, found), headers=headers)
        finished = ""
        try:
            async for piece in found:
                finished = piece.finished or finished
        finally:
            found.close()
        return Reply(head.whole(record.text, finished, usage_of(record)), headers=headers)

    def _called(self, name: str) -> Model:
        """The model that a request names. Raises NotFound, and Refused for one whose release was withdrawn."""
        models = self._models()
        if not any(each.is_called(name) for each in models) and (reason := self._refusal(name)):
            raise Refused(RELEASE_WITHDRAWN, reason)
        return called(models, name)

    async def _begin(self, begun: Begun, lease: Lease) -> None:
        """Journal the beginning of an answer, or give its lease back. Raises Unavailable."""
        writing = asyncio.run_coroutine_threadsafe(self._journal.written(begun), eventloop.event_loop())
        try:
            await asyncio.wait_for(asyncio.wrap_future(writing), BEGIN_SECONDS)
        except BaseException as error:
            eventloop.event_loop().call_soon_threadsafe(self._leases.release, lease)
            if isinstance(error, TimeoutError):
                raise Unavailable("the database of answers does not answer: try again later") from None
            raise

    async def _events(
        self, request: ChatRequest, head: Head, record: Record, found: Crossing
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
            found.close()


def cost_of(record: Record) -> Cost:
    """The cost of an answer so far; its prompt counts as soon as a replica has taken it."""
    taken = record.answer is not None and record.answer.opened is not None
    return Cost(len(record.request.prompt) if taken else 0, record.released, len(record.ids))


def called(models: Sequence[Model], name: str) -> Model:
    """The first of the models that have this name. Raises NotFound."""
    found = [each for each in models if each.is_called(name)]
    if not found:
        raise NotFound(f"the model {name!r}")
    return min(found, key=lambda each: each.name)


def usage_of(record: Record) -> Usage:
    return Usage(len(record.request.prompt), record.released)
