"""The routes of the models, of chat completions and of completions, as OpenAI's clients call them.

Promises: a request with an idempotency key is answered once: its retries get the same bytes, while it is made and after
its end, and are not charged. The handlers run in the event loop of the HTTP server, answers in that of gRPC: pieces
cross by a queue.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from json import dumps

from tutti.chassis.errors import Refused, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import eventloop
from tutti.chat.answers import Answers
from tutti.chat.beginnings import Beginnings, Choice, Group
from tutti.chat.bodies import Bodies, ChatBodies, Head, TextBodies, Usage, Whole
from tutti.chat.defaults import as_json
from tutti.chat.journal import Begun, Entry, Journal
from tutti.chat.keys import Keyed, key_in
from tutti.chat.making import Crossing
from tutti.chat.models import Model, called
from tutti.chat.reasons import KEY_USED, RELEASE_WITHDRAWN
from tutti.chat.requests import ChatRequest, as_body, read, read_completion
from tutti.chat.saying import Piece
from tutti.chat.sharing import Shared
from tutti.records.canonical import bytes_digest
from tutti.web.pages import Api, Ask, Reply

ROLES = frozenset({Role.OPERATOR, Role.ENGINEER, Role.CLIENT})
BEGIN_SECONDS = 5.0
"""A request whose beginning cannot be journaled in this time is refused."""


@dataclass(frozen=True)
class Underway:
    """An answer for one reader. `pieces` can be read once; `close` is called when the reader leaves or has read all."""

    group: Group
    bodies: Bodies
    pieces: AsyncGenerator[Piece, None]
    close: Callable[[], None] = lambda: None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    """A request with a key that is answered now: its digest, and the answer, as soon as it has begun."""

    digest: str
    begun: "asyncio.Future[tuple[Group, Bodies, Shared]]"


class Completions:
    """`models` returns those that serve now; `now` is in seconds since 1970. `refusal` is the reason why a model does
    not answer any more, by its name.
    """

    def __init__(
        self,
        models: Callable[[], Sequence[Model]],
        journal: Journal,
        beginnings: Beginnings,
        answers: Answers,
        *,
        now: Callable[[], int],
        refusal: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._models, self._journal, self._beginnings, self._answers = models, journal, beginnings, answers
        self._now, self._refusal = now, refusal
        self._running: dict[tuple[str, str, str], Running] = {}

    def routes(self) -> list[Api]:
        return [
            Api("/v1/models", self._list, ROLES),
            Api("/v1/chat/completions", self._complete, ROLES, "POST", read=read),
            Api("/v1/completions", self._complete, ROLES, "POST", read=read_completion),
        ]

    async def _list(self, ask: Ask) -> Reply:
        data = [
            {
                **{"id": each.name, "object": "model", "created": each.created, "owned_by": "tutti"},
                "sampling": as_json(each.defaults.sampling),
            }
            for each in sorted(self._models(), key=lambda each: each.name)
        ]
        return Reply({"object": "list", "data": data})

    async def _complete(self, ask: Ask) -> Reply:
        request: ChatRequest = ask.body
        model, who, key = self._called(request.model), ask.principal, key_in(ask.headers)
        underway = await (self._once(who, model, request, key) if key else self._begun(who, model, request))
        headers = {"x-tutti-answer": ", ".join(underway.group.names), **underway.headers}
        if request.stream:
            return Reply(self._events(underway), headers=headers)
        choices = [Whole() for _ in underway.group.choices]
        try:
            async for piece in underway.pieces:
                choices[piece.choice].add(piece)
        finally:
            underway.close()
        return Reply(underway.bodies.whole(choices, usage_of(underway.group)), headers=headers)

    async def _begun(self, who: Principal, model: Model, request: ChatRequest, keyed: Keyed | None = None) -> Underway:
        """Begin an answer; with a key, that of `keyed`, with its seed, and its head if it has one."""
        seed = keyed.seed if keyed and keyed.head else None
        group = await asyncio.to_thread(self._beginnings.grouped, who, model, request, seed)
        lease = await self._beginnings.reserve(who, group)
        head = dict(keyed.head) if keyed and keyed.head else self._head(group)
        entries: list[Entry] = [each.begun for each in group.choices]
        if keyed is not None:
            first = group.choices[0].begun.seed
            entries.append(Keyed(keyed.tenant, keyed.user, keyed.key, keyed.digest, first, head, group.names))
        try:
            await self._written(entries)
        except BaseException:
            self._beginnings.release(group, lease)
            raise
        found = Crossing(lambda show: self._beginnings.make(group, lease, show), len(group.choices))
        return Underway(group, bodies_of(group, head), aiter(found), found.close, lease.headers)

    async def _once(self, who: Principal, model: Model, request: ChatRequest, key: str) -> Underway:
        """The answer to a request with a key: one that is made, one that has ended, or a new one."""
        slot, digest = (who.tenant, who.user, key), bytes_digest(dumps(as_body(request)).encode())
        running = self._running.get(slot)
        if running is None:
            running = self._running[slot] = Running(digest, asyncio.get_running_loop().create_future())
            try:
                found = await asyncio.to_thread(self._answers.keyed, who, key)
                _check(digest, found.digest if found else digest)
                if found and (ended := await self._ended(model, request, found)):
                    running.begun.cancel()
                    del self._running[slot]
                    return ended
                if found:  # it is made again as it began, whatever the model's defaults are now
                    began = await asyncio.to_thread(self._answers.sampling_of, found.answers[0])
                    request = request.filled(began)
                keyed = found or Keyed(*slot, digest, 0, {}, ())
                begun = await self._begun(who, model, request, keyed)
            except BaseException:
                running.begun.cancel()
                self._running.pop(slot, None)
                raise
            shared = Shared(begun.pieces)
            shared.collecting.add_done_callback(lambda _: self._running.pop(slot, None))
            running.begun.set_result((begun.group, begun.bodies, shared))
            return Underway(begun.group, begun.bodies, shared.read(), headers=begun.headers)
        _check(digest, running.digest)
        try:
            group, bodies, shared = await asyncio.shield(running.begun)
        except asyncio.CancelledError:
            if running.begun.cancelled():  # it has ended already, or could not begin
                return await self._once(who, model, request, key)
            raise
        return Underway(group, bodies, shared.read())

    async def _ended(self, model: Model, request: ChatRequest, keyed: Keyed) -> Underway | None:
        """An answer from the journal; None if it failed, so that it has to be made again."""
        found = await asyncio.to_thread(self._answers.replay, model, keyed.answers)
        if found is None:
            return None
        choices = [
            Choice(
                Begun(name, keyed.user, keyed.tenant, model.deployment, model.checkpoint, generation.request, 0),
                replay.record,
                number // request.choices,
            )
            for number, (name, (generation, replay)) in enumerate(zip(keyed.answers, found, strict=True))
        ]
        group = Group(model, request, choices)

        async def pieces() -> AsyncGenerator[Piece, None]:
            for number, (_, replay) in enumerate(found):
                for piece in replay.pieces:
                    yield replace(piece, choice=number)

        return Underway(group, bodies_of(group, keyed.head), pieces())

    def _head(self, group: Group) -> dict[str, object]:
        """The fields that all bodies of an answer have."""
        prefix = "cmpl" if group.request.prompts else "chatcmpl"
        return {
            "id": f"{prefix}-{group.names[0].partition('/')[2]}",
            "model": group.model.name,
            "created": self._now(),
            "fingerprint": group.model.fingerprint,
        }

    def _called(self, name: str) -> Model:
        """The model that a request names. Raises NotFound, and Refused for one whose release was withdrawn."""
        models = self._models()
        if not any(each.is_called(name) for each in models) and (reason := self._refusal(name)):
            raise Refused(RELEASE_WITHDRAWN, reason)
        return called(models, name)

    async def _written(self, entries: Sequence[Entry]) -> None:
        """Journal entries. Raises Unavailable."""

        async def written() -> None:
            await asyncio.gather(*(self._journal.written(each) for each in entries))

        writing = asyncio.run_coroutine_threadsafe(written(), eventloop.event_loop())
        try:
            await asyncio.wait_for(asyncio.wrap_future(writing), BEGIN_SECONDS)
        except TimeoutError:
            raise Unavailable("the database of answers does not answer: try again later") from None

    async def _events(self, underway: Underway) -> AsyncGenerator[str, None]:
        group, bodies = underway.group, underway.bodies
        try:
            for index in range(len(group.choices)):
                for chunk in bodies.first(index):
                    yield dumps(chunk)
            async for piece in underway.pieces:
                for chunk in bodies.part(piece):
                    yield dumps(chunk)
            if group.request.include_usage:
                yield dumps(bodies.usage(usage_of(group)))
            yield "[DONE]"
        finally:
            underway.close()


def bodies_of(group: Group, head: Mapping[str, object]) -> Bodies:
    request = group.request
    common = Head(**head, tokenizer=group.model.served.tokenizer, scored=request.alternatives is not None)  # type: ignore[arg-type]
    return TextBodies(common) if request.prompts else ChatBodies(common)


def usage_of(group: Group) -> Usage:
    """The usage of a whole answer; a prompt counts once."""
    return Usage(group.prompt_tokens, group.cost.released)


def _check(digest: str, recorded: str) -> None:
    """Raises Refused where a key belongs to another request."""
    if digest != recorded:
        raise Refused(KEY_USED, "this idempotency key was used with another body: send that one, or use another key")
