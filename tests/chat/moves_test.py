"""Replicas that are killed and stopped while they generate: every completion is the undisturbed one, to the bit."""

import asyncio
import random
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from tests.chat.replicas import (
    SLOTS,
    START_SECONDS,
    Events,
    await_that,
    child,
    drawn,
    engine,
    serving,
    staged,
    undisturbed,
)
from tests.scale import rotation, scale
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import InvalidField, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import eventloop
from tutti.chat.children import SILENCE_SECONDS, ReplicaChild
from tutti.chat.replica.program import WAITING
from tutti.chat.routing import Answer, Router
from tutti.contracts.chat.v1 import FollowRequest
from tutti.contracts.chat.v1.stubs import ReplicaServiceStub
from tutti.inference.engine import Ended, Join
from tutti.inference.limits import Stop

T = TypeVar("T")
STREAMS = 24
ROUND_SECONDS = 300.0


class World:
    """Two replicas of one checkpoint, and a router over them."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = staged(folder)
        self.data_dir = DataDir(folder / "data")
        self.token = self.data_dir.tokens().of(Role.SERVICE)
        self.children = {name: child(self.data_dir, name, self.checkpoint) for name in "ab"}
        self.truth = engine(self.checkpoint)
        self.router = run(made(self.token, spare_seconds=START_SECONDS))

    def follow(self) -> None:
        """Wait until the router follows every replica; those that were killed are started again."""
        for name, each in self.children.items():
            if each.exit_code is not None:
                each.end(10)
                self.children[name] = child(self.data_dir, name, self.checkpoint)
        run(self.router.use(serving(list(self.children.values()))))
        await_that(lambda: all(each.opened for each in self.router.replicas), "links to be followed")

    def followed(self, name: str) -> bool:
        address = self.children[name].address
        return any(each.opened for each in self.router.replicas if each.address == address)

    def lost(self, name: str) -> None:
        """Wait until the router follows a replica no more."""
        await_that(lambda: not self.followed(name), "a replica to be lost")

    def close(self) -> None:
        run(self.router.close())
        for each in self.children.values():
            each.id.send(signal.SIGCONT)
            each.end(10)


def run(work: Coroutine[Any, Any, T]) -> T:
    return eventloop.run(work, ROUND_SECONDS)


async def made(token: str, **options: Any) -> Router:
    return Router(connection_of_loop, token, **options)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("chat"))
    yield made
    made.close()


@pytest.fixture
def world(every: World) -> World:
    every.follow()
    return every


async def collected(answer: Answer, told: Callable[[], None] = lambda: None) -> Events:
    found: Events = []
    async with aclosing(answer.events()) as events:
        async for event in events:
            found.append(event)
            told()
    return found


def test_replicas_that_are_killed_and_stopped_leave_no_trace_in_completions(world: World) -> None:
    rounds, seed, moves = scale(test=3, soak=200), rotation(), 0
    source = random.Random(seed)
    for number in range(rounds):
        kill = number % 3 == 2  # a new process takes its time to start
        world.follow()  # a link that was lost is followed again
        requests = drawn(source, STREAMS)
        truth = undisturbed(world.truth, requests)
        moment = int(source.uniform(0, 0.5) * sum(map(len, truth.values())))
        name = source.choice(sorted(world.children))
        victim, seen = world.children[name], [0]

        def told(
            moment: int = moment, kill: bool = kill, victim: ReplicaChild = victim, seen: list[int] = seen
        ) -> None:
            seen[0] += 1
            if seen[0] == moment + 1:
                victim.id.send(signal.SIGKILL if kill else signal.SIGSTOP)

        answers = [world.router.answer(each) for each in requests]

        async def all_collected(answers: list[Answer] = answers, told: Callable[[], None] = told) -> list[Events]:
            return await asyncio.gather(*(collected(each, told) for each in answers))

        found = run(all_collected())
        assert {str(each.id): events for each, events in zip(requests, found, strict=True)} == truth, f"seed {seed}"
        moves += sum(len(each.moves) for each in answers)
        world.lost(name)
        victim.id.send(signal.SIGCONT)
    print(f"seed {seed}, {rounds} rounds of {STREAMS} completions, {moves} moves")
    assert moves


def test_requests_are_answered_alike_by_each_replica_and_by_an_engine_of_this_process(world: World) -> None:
    requests = drawn(random.Random(1), 8)
    truth = undisturbed(world.truth, requests)
    for each in world.children.values():
        run(world.router.use([each.address]))
        for request in requests:
            answer = world.router.answer(request, model=world.truth.opened.model)
            assert run(collected(answer)) == truth[str(request.id)]
            assert answer.opened is not None
            assert answer.opened.signature == world.truth.opened.signature
            assert answer.opened.exact


def test_who_leaves_frees_its_place_at_the_replica(world: World) -> None:
    """More requests than a replica accepts, each left before it ends: as soon as it is asked, or after a token."""
    requests = [replace(each, prompt=each.prompt[:5]) for each in drawn(random.Random(2), SLOTS + WAITING + 10)]

    async def left(router: Router, request: Join, tokens: int) -> None:
        async with aclosing(router.answer(request).events()) as events:
            for _ in range(tokens):
                await anext(events)
            if not tokens:
                beginning = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0)
                beginning.cancel()
                await asyncio.wait({beginning})

    async def all_left() -> None:
        for number, request in enumerate(requests):
            await left(world.router, request, number % 3)

    run(all_left())
    last = drawn(random.Random(3), 4)
    assert [run(collected(world.router.answer(each))) for each in last] == list(undisturbed(world.truth, last).values())


def test_a_request_that_cannot_be_served_is_refused_by_its_field(world: World) -> None:
    [request] = drawn(random.Random(4), 1)
    for wrong, field in (
        (replace(request, prompt=()), "request"),
        (replace(request, prompt=(1,) * 256), "prompt"),
        (replace(request, prompt=(1, 10_000)), "prompt"),
        (replace(request, given=(10_000,)), "given"),
    ):
        with pytest.raises(InvalidField) as refused:
            run(collected(world.router.answer(wrong)))
        assert refused.value.field == field
    assert run(collected(world.router.answer(request))) == undisturbed(world.truth, [request])[str(request.id)]


def test_nobody_without_the_token_of_a_service_is_served(world: World) -> None:
    address = world.children["a"].address

    async def refused(metadata: list[tuple[str, str]]) -> grpc.StatusCode:
        async with connection_of_loop(address) as channel:
            stream: Any = ReplicaServiceStub(channel).Follow(FollowRequest(), metadata=metadata)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stream.read()
            return error.value.code()

    tokens = world.data_dir.tokens()
    assert run(refused([])) is grpc.StatusCode.UNAUTHENTICATED
    for role in (Role.OPERATOR, Role.ENGINEER, Role.AGENT):
        assert run(refused([("authorization", f"Bearer {tokens.of(role)}")])) is grpc.StatusCode.UNAUTHENTICATED

    async def unanswered() -> str:
        router = Router(connection_of_loop, "another token", spare_seconds=0.5)
        await router.use([address])
        with pytest.raises(Unavailable) as error:
            await collected(router.answer(drawn(random.Random(5), 1)[0]))
        await router.close()
        return error.value.reason

    assert run(unanswered()) == "NO_REPLICA"


def test_a_replica_that_was_stopped_is_known_by_its_silence(world: World) -> None:
    child = world.children["a"]
    assert not child.hangs(0.0)
    child.id.send(signal.SIGSTOP)
    await_that(child.id.stopped, "the replica to be stopped")
    child.hangs(0.0)  # takes what it said before
    assert [child.hangs(SILENCE_SECONDS / 5 * each) for each in range(1, 7)] == [False] * 5 + [True]
    child.id.send(signal.SIGCONT)


def test_without_a_spare_a_completion_ends_with_an_error_and_no_end(world: World) -> None:
    requests = [
        replace(each, prompt=each.prompt[:7], limits=replace(each.limits, tokens=200, end=-1))
        for each in drawn(random.Random(6), STREAMS)
    ]
    truth, seen = undisturbed(world.truth, requests), [0]

    def told() -> None:
        seen[0] += 1
        if seen[0] == 100:
            for each in world.children.values():
                each.id.send(signal.SIGKILL)

    async def outcome(router: Router, request: Join) -> tuple[Events, str]:
        found: Events = []
        try:
            async with aclosing(router.answer(request).events()) as events:
                async for event in events:
                    found.append(event)
                    told()
        except Unavailable as error:
            return found, error.reason
        return found, ""

    async def all_outcomes() -> list[tuple[Events, str]]:
        router = await made(world.token, spare_seconds=0.5)
        await router.use([each.address for each in world.children.values()])
        async with asyncio.timeout(START_SECONDS):
            while not all(each.opened for each in router.replicas):
                await asyncio.sleep(0.02)
        found = await asyncio.gather(*(outcome(router, each) for each in requests))
        await router.close()
        return found

    outcomes = run(all_outcomes())
    assert "NO_REPLICA" in {reason for _, reason in outcomes}
    for request, (events, reason) in zip(requests, outcomes, strict=True):
        whole = truth[str(request.id)]
        assert events == whole[: len(events)]
        assert reason == ("" if len(events) == len(whole) else "NO_REPLICA")
        assert not any(isinstance(each, Ended) and each.stop is Stop.CANCELLED for each in events)
