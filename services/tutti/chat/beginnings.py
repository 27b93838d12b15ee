"""The beginning of answers: a request becomes completions, which are reserved together, journaled and made.

Promises: the choices of a request are reserved, made and settled together, and each has a journal and a record of its
own; a prompt counts once, however many choices continue it; if one choice fails, or the reader leaves, all end.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import eventloop
from tutti.chat.answering import joined
from tutti.chat.capacity import Capacity
from tutti.chat.journal import Begun, Journal
from tutti.chat.leases import Cost, Lease, Leases
from tutti.chat.models import Model
from tutti.chat.recording import Recording, Show
from tutti.chat.requests import ChatRequest
from tutti.chat.saying import Piece, Record


@dataclass(frozen=True)
class Choice:
    """One completion, which begins as `begun` says; `prompt` is the number of its prompt in the request."""

    begun: Begun
    record: Record
    prompt: int


@dataclass(frozen=True)
class Group:
    """The choices of one request, at least one."""

    model: Model
    request: ChatRequest
    choices: Sequence[Choice]

    @property
    def names(self) -> list[str]:
        """The names of the answers."""
        return [each.begun.answer for each in self.choices]

    @property
    def cost(self) -> Cost:
        """The cost so far; a prompt counts as soon as a replica has taken a choice that continues it."""
        records = [each.record for each in self.choices]
        taken = {
            each.prompt: each.record.prompt_tokens
            for each in self.choices
            if each.record.answer is not None and each.record.answer.opened is not None
        }
        return Cost(
            sum(taken.values()),
            sum(each.released for each in records),
            sum(each.completion_tokens for each in records),
        )

    @property
    def prompt_tokens(self) -> int:
        """The tokens of the prompts, each counted once."""
        return sum({each.prompt: each.record.prompt_tokens for each in self.choices}.values())

    @property
    def most_tokens(self) -> int:
        """The most tokens that all completions can have."""
        return sum(_most(self.model, each.record) for each in self.choices)


class Beginnings:
    """`name` returns a new id of an answer, `seed` a random seed."""

    def __init__(self, journal: Journal, leases: Leases, *, name: Callable[[], str], seed: Callable[[], int]) -> None:
        self._journal, self._leases, self._name, self._seed = journal, leases, name, seed
        self._capacity = Capacity()

    def grouped(self, who: Principal, model: Model, request: ChatRequest, seed: int | None = None) -> Group:
        """The choices that a request asks for; a template of others runs in a process.

        Where the request names no seed, they have this one, and where it names no sampling, that of the model.

        Raises InvalidField, and Unavailable where too many answers wait.
        """
        self._capacity.check(model)
        choices, seed = list[Choice](), self._seed() if seed is None else seed
        request = request.filled(model.defaults.sampling)
        for number, single in enumerate(request.singles(seed)):
            ident = self._name()
            join = joined(model.served, single, id=ident, seed=seed, salt=who.tenant)
            begun = Begun(
                *(f"answers/{ident}", who.user, who.tenant, model.deployment, model.checkpoint),
                single,
                join.sampling.seed,
            )
            choices.append(Choice(begun, Record(join), number // request.choices))
        return Group(model, request, choices)

    async def reserve(self, who: Principal, group: Group) -> Lease:
        """Reserve all choices of a group together, from any loop.

        Raises what `Leases.reserve` raises, and Unavailable where too many answers wait.
        """
        choices = len(group.choices)
        self._capacity.take(group.model, choices)
        try:
            return await self._leases.reserve(who, group.names[0], group.prompt_tokens, group.most_tokens, choices)
        except BaseException:
            self._capacity.free(group.model, choices)
            raise

    def release(self, group: Group, lease: Lease) -> None:
        """Give back the lease of a group that did not begin, from any thread."""
        self._capacity.free(group.model, len(group.choices))
        eventloop.event_loop().call_soon_threadsafe(self._leases.release, lease)

    async def make(self, group: Group, lease: Lease, show: Show) -> None:
        """Make the choices, whose beginnings are in the journal, and show their pieces, and an error that ends them.

        For the event loop of gRPC. To end them, cancel the task that this runs in, which does nothing else.
        """
        try:
            await self._leases.run(
                lease, group.model.deployment, lambda told: self._run(group, told), lambda: group.cost, show
            )
        finally:
            self._capacity.free(group.model, len(group.choices))

    async def _run(self, group: Group, show: Show) -> None:
        served, router = group.model.served, group.model.router
        recordings = [Recording(self._journal, served, router, each.begun, each.record) for each in group.choices]
        tasks = list[asyncio.Task[None]]()

        def told(said: Piece | Exception, number: int) -> None:
            if isinstance(said, Piece):
                show(replace(said, choice=number))
                return
            show(said)
            for each in tasks:
                each.cancel()

        tasks += [
            asyncio.ensure_future(each.run(lambda said, number=number: told(said, number)))  # type: ignore[misc]
            for number, each in enumerate(recordings)
        ]
        try:
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for each in recordings:  # one that was cancelled before it began has a record too
                each.close()
        for end in ends:
            if isinstance(end, Exception):
                raise end


def _most(model: Model, record: Record) -> int:
    """The most tokens that a completion can have beside its prompt."""
    join = record.request
    return max(1, min(join.limits.tokens - len(join.forced), model.served.length - record.prompt_tokens))
