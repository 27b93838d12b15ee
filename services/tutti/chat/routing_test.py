"""The router beside replicas that break the protocol; `tests/chat` has the real ones, killed and stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from typing import Any, TypeVar

import pytest

from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import Refused
from tutti.chassis.identity.auth import Role, Tokens
from tutti.chassis.rpc import eventloop
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.health import Health
from tutti.chassis.rpc.server import RpcServer
from tutti.chassis.service import Served
from tutti.chat.routing import MOST_IDLE_MOVES, Router
from tutti.chat.tokens import Event, message_of
from tutti.contracts.chat.v1 import (
    AdmitRequest,
    AdmitResponse,
    CancelRequest,
    CancelResponse,
    FollowRequest,
    FollowResponse,
    Opened,
)
from tutti.contracts.chat.v1.replica_pb2 import DESCRIPTOR
from tutti.inference.engine import Chosen, Ended, Join
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling

T = TypeVar("T")
TOKENS = Tokens.random()
COUNT = 6
WAIT_SECONDS = 60.0
Script = Callable[[str, int], list[Event] | None]
"""The events that answer a request with so many tokens; None ends the stream."""


class Scripted:
    """A program that speaks the protocol of a replica and chooses the token 100 + k at place k, if its script does."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._admitted: asyncio.Queue[AdmitRequest] = asyncio.Queue()
        self.admitted = 0

    def Admit(self, request: AdmitRequest, call: Call) -> AdmitResponse:
        self.admitted += 1
        eventloop.event_loop().call_soon_threadsafe(self._admitted.put_nowait, request)
        return AdmitResponse()

    def Cancel(self, request: CancelRequest, call: Call) -> CancelResponse:
        return CancelResponse()

    async def Follow(self, request: FollowRequest, call: Call) -> AsyncIterator[FollowResponse]:
        yield FollowResponse(opened=Opened(session="s", signature="one"))
        while True:
            try:
                admitted = await asyncio.wait_for(self._admitted.get(), 0.1)
            except TimeoutError:
                yield FollowResponse()
                continue
            events = self._script(admitted.request, len(admitted.given))
            if events is None:
                return
            yield message_of(events)


def right(request: str, given: int) -> list[Event]:
    tokens: list[Event] = [Chosen(request, at, 100 + at, -1.0) for at in range(given, COUNT)]
    return [*tokens, Ended(request, Stop.TOKENS)]


def with_a_gap(request: str, given: int) -> list[Event]:
    return [each for each in right(request, given) if not (isinstance(each, Chosen) and each.at == given + 1)]


def repeated(request: str, given: int) -> list[Event]:
    every = right(request, 0)
    return [*every[: given + 1], *every]


def ending(request: str, given: int) -> None:
    return None


@contextmanager
def served(*scripts: Script) -> Iterator[list[tuple[str, Scripted]]]:
    """The addresses of programs with these scripts."""
    with ExitStack() as stack:
        found = []
        for script in scripts:
            api = Scripted(script)
            server = RpcServer(
                [Served(DESCRIPTOR.services_by_name["ReplicaService"], api)],
                settings=RpcSettings(),
                tokens=TOKENS,
                health=Health({}),
                record=lambda refusal, times: None,
            )
            found.append((server.start(), api))
            stack.callback(server.drain, 0)
        yield found


def run(work: Coroutine[Any, Any, T]) -> T:
    return eventloop.run(work, WAIT_SECONDS)


async def answered(addresses: list[str]) -> tuple[list[Event], list[tuple[int, str]]]:
    """The events of a request, and its moves, over replicas that are asked in the order of their addresses."""
    router = Router(connection_of_loop, TOKENS.of(Role.SERVICE), spare_seconds=WAIT_SECONDS)
    await router.use(addresses)
    while not all(each.opened for each in router.replicas):
        await asyncio.sleep(0.01)
    answer = router.answer(Join("a", 0, (1,), Sampling(), Limits(COUNT, -1, 300)))
    try:
        async with aclosing(answer.events()) as events:
            return [each async for each in events], [(move.at, move.address) for move in answer.moves]
    finally:
        await router.close()


def test_a_replica_that_leaves_a_token_out_is_lost_and_another_continues() -> None:
    with served(with_a_gap, with_a_gap, right) as programs:
        addresses = [address for address, _ in programs]
        found, moves = run(answered(addresses))
    assert found == right("a", 0)
    assert {address for _, address in moves} <= set(addresses[:2])


def test_tokens_that_a_replica_repeats_are_dropped() -> None:
    with served(repeated) as [(address, _)]:
        assert run(answered([address])) == (right("a", 0), [])


def test_a_request_that_ends_every_replica_is_given_up() -> None:
    with served(ending) as [(address, program)]:
        with pytest.raises(Refused) as refused:
            run(answered([address]))
        assert refused.value.reason == "KEPT_MOVING"
        assert program.admitted == MOST_IDLE_MOVES
