"""Leases of answers at the real service `access`: every kind of end gives back what was reserved."""

import asyncio
import itertools
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.web.commands_test import tutti
from tests.web.hosted import Hosted, hosted
from tests.web.tokens_test import issue, user
from tutti.access.service import build
from tutti.chassis.errors import InvalidField, Problem, Refused, Unauthenticated, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Method, Principal
from tutti.chassis.rpc import eventloop
from tutti.chat.leases import Cost, Lease, Leases, duration
from tutti.chat.recording import Show
from tutti.chat.saying import Piece
from tutti.client import connect
from tutti.contracts.access.v1 import ListUsageRequest, RevokeTokenRequest
from tutti.inference.engine import Join, Shaping
from tutti.inference.limits import Limits
from tutti.inference.sampling import Sampling
from tutti.web.calls import TooMany
from tutti.web.tokens import ID_DIGITS, digest

T = TypeVar("T")
TOY = "deployments/toy"
ROOM, MOST, SECONDS = 100, 40, 120.0
CONCURRENT = 2
LIMITS = (f"access.concurrent_answers={CONCURRENT}", "access.answer_tokens_per_minute=100000")
END = Piece(None, "", "stop")
_ids = itertools.count()


def join(prompt: int = 3, tokens: int = MOST) -> Join:
    limits = Limits(tokens, 0, 300, ())
    return Join(f"{next(_ids)}", 0, tuple(range(1, prompt + 1)), Sampling(1.0, 1.0, seed=1), limits, Shaping(), salt="")


@dataclass
class Reader:
    said: list[Piece | Exception] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def show(self, said: Piece | Exception) -> None:
        self.said.append(said)
        if isinstance(said, Exception) or said.finished:
            self.done.set()


class World:
    def __init__(self, served: Hosted) -> None:
        self.served = served
        self.service = connect(served.data_dir.path, role=Role.SERVICE)
        self.leases = Leases(self.service.access)

    def principal(self, name: str) -> Principal:
        """A user with a token of its own."""
        with self.served.client() as operator:
            owner = user(operator, name)
            token, _ = issue(operator, owner)
        roles = frozenset({Role.CLIENT})
        return Principal(owner, roles, "tenants/default", Method.TOKEN, digest(token))

    def usage(self, principal: Principal) -> tuple[int, int, int]:
        """Requests, prompt tokens and completion tokens."""
        with self.served.client() as operator:
            found = operator.access.ListUsage(ListUsageRequest(user=principal.user)).usage
        counts = [(each.requests, each.prompt_tokens, each.completion_tokens) for each in found]
        return tuple(sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0, 0)

    def reserve(self, principal: Principal, request: Join | None = None) -> Lease:
        request = request or join()
        tokens = min(request.limits.tokens, ROOM)
        return run(self.leases.reserve(principal, f"answers/{request.id}", len(request.prompt), tokens))


def run(work: Coroutine[Any, Any, T]) -> T:
    return eventloop.run(work, SECONDS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), *LIMITS, builds={"access": build}) as served:
        found = World(served)
        yield found
        found.service.close()


async def completed(show: Show) -> None:
    show(Piece(1, "a"))
    show(END)


async def failed(show: Show) -> None:
    show(Unavailable("no replica"))


async def broken(show: Show) -> None:
    raise ZeroDivisionError


async def endless(show: Show) -> None:
    show(Piece(1, "a"))
    await asyncio.Event().wait()


async def left(world: World, lease: Lease) -> None:
    """The reader leaves in mid-sentence."""
    reader = Reader()
    work = world.leases.run(lease, TOY, endless, lambda: Cost(3, 1, 1), reader.show)
    running = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def ended(world: World, lease: Lease, work: Any) -> list[Piece | Exception]:
    reader = Reader()
    if work is broken:
        with pytest.raises(ZeroDivisionError):
            await world.leases.run(lease, TOY, work, lambda: Cost(3, 1, 2), reader.show)
        return []
    await world.leases.run(lease, TOY, work, lambda: Cost(3, 1, 2), reader.show)
    await asyncio.wait_for(reader.done.wait(), SECONDS)
    return reader.said


def released(world: World, lease: Lease) -> None:
    eventloop.event_loop().call_soon_threadsafe(world.leases.release, lease)


def test_nothing_is_held_after_40_rounds_of_every_kind_of_end(world: World) -> None:
    principal, rounds = world.principal("Rounds"), 40
    kinds = [completed, failed, broken, "left", "released"]
    for number in range(rounds):
        kind = kinds[number % len(kinds)]
        lease = _admitted(world, principal)
        if kind == "left":
            run(left(world, lease))
        elif kind == "released":
            released(world, lease)
        else:
            run(ended(world, lease, kind))
    leases = [_admitted(world, principal) for _ in range(CONCURRENT)]
    with pytest.raises(TooMany) as refused:
        world.reserve(principal)
    assert int(refused.value.headers["retry-after-ms"]) > 0
    for lease in leases:
        run(ended(world, lease, completed))
    assert world.usage(principal)[0] == rounds + CONCURRENT


def _admitted(world: World, principal: Principal) -> Lease:
    """A lease, as soon as what ended before is settled: an end without a reader is settled a moment later."""
    while True:
        try:
            return world.reserve(principal)
        except TooMany:
            continue


def test_an_end_is_shown_after_it_was_settled(world: World) -> None:
    principal, seen = world.principal("Settled"), list[tuple[int, int, int]]()
    lease, loop = world.reserve(principal), eventloop.event_loop()

    async def watched() -> None:
        done = asyncio.Event()

        def show(said: Piece | Exception) -> None:
            if said is END:
                done.set()

        await world.leases.run(lease, TOY, completed, lambda: Cost(3, 5, 7), show)
        await asyncio.wait_for(done.wait(), SECONDS)
        seen.append(await loop.run_in_executor(None, world.usage, principal))

    run(watched())
    assert seen == [(1, 3, 5)]


def test_an_answer_that_begins_after_its_deployment_was_stopped_ends_until_that_is_allowed_again(world: World) -> None:
    principal, withdrawn = world.principal("Stopped"), Refused("WITHDRAWN", "its release was revoked")
    lease, loop = world.reserve(principal), eventloop.event_loop()
    loop.call_soon_threadsafe(world.leases.stop, TOY, withdrawn)
    assert run(ended(world, lease, endless))[-1] is withdrawn
    loop.call_soon_threadsafe(world.leases.allow, TOY)
    assert run(ended(world, world.reserve(principal), completed))[-1] is END


def test_a_revoked_token_ends_its_answer_at_the_next_renewal_and_gets_no_other(world: World) -> None:
    principal = world.principal("Revoked")
    lease = world.reserve(principal)
    with world.served.client() as operator:
        operator.access.RevokeToken(RevokeTokenRequest(id=principal.credential[:ID_DIGITS]))
    first, last = run(ended(world, lease, endless))
    assert isinstance(first, Piece)
    assert isinstance(last, Unauthenticated)
    assert world.usage(principal) == (1, 3, 1)
    with pytest.raises(Unauthenticated):
        world.reserve(principal)


def test_the_command_prints_a_token_for_clients_and_what_each_token_used(world: World) -> None:
    principal = world.principal("Measured")
    run(ended(world, world.reserve(principal), completed))
    made = tutti(world.served, "token", "create", "--role", "client")
    assert made["user"] == "users/client"
    [used] = tutti(world.served, "token", "usage", principal.credential[:ID_DIGITS])
    assert (used["user"], used["requests"], used["prompt_tokens"], used["completion_tokens"]) == (
        *(principal.user, 1),
        *(3, 1),
    )
    assert tutti(world.served, "token", "usage", made["id"]) == []
    assert tutti(world.served, "token", "usage", "--user", principal.user, "--since", used["day"]) == [used]


def test_the_answers_of_a_deployment_that_is_stopped_end_with_its_error(world: World) -> None:
    principal, error = world.principal("Stopped"), Refused("RELEASE_WITHDRAWN", "the release was revoked")

    async def stopped(lease: Lease) -> list[Piece | Exception]:
        running = asyncio.ensure_future(ended(world, lease, endless))
        await asyncio.sleep(0)
        world.leases.stop("deployments/other", Unavailable("of another"))
        world.leases.stop(TOY, error)
        return await running

    assert run(stopped(world.reserve(principal)))[-1] is error


def test_a_request_for_more_than_a_minute_has_is_refused_by_its_parameter(world: World) -> None:
    with pytest.raises(InvalidField) as refused:
        run(world.leases.reserve(world.principal("Large"), "answers/large", 3, 200_000))
    assert refused.value.field == "max_tokens"


def test_a_request_for_more_choices_than_can_be_made_at_once_is_refused_by_its_parameter(world: World) -> None:
    with pytest.raises(InvalidField) as refused:
        run(world.leases.reserve(world.principal("Many"), "answers/many", 3, 9, CONCURRENT + 1))
    assert refused.value.field == "n"


def test_answers_go_on_while_access_is_away_until_their_lease_ends(tmp_path: Path) -> None:
    with hosted(tmp_path, builds={"access": build}) as served:
        world = World(served)
        principal = world.principal("Away")
        lease = replace(world.reserve(principal), seconds=2.0)
    first, last = run(ended(world, lease, endless))
    assert isinstance(first, Piece)
    assert isinstance(last, Unavailable)
    with pytest.raises(Problem) as refused:
        world.reserve(principal)
    assert refused.value.transient
    world.service.close()


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0ms"), (17, "17ms"), (1250, "1.25s"), (60_000, "1m0s"), (361_500, "6m1.5s")]
)
def test_a_duration_is_written_as_openais_api_writes_it(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
