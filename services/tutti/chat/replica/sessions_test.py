"""Sessions of a replica over a real engine, step by step."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tutti.chassis.errors import InvalidField, Refused
from tutti.chat.replica.sessions import Sessions
from tutti.chat.tokens import Event, Failed
from tutti.inference.decoder_test import parameters, tokens_of
from tutti.inference.engine import Chosen, Ended, Join, Mode, Weights
from tutti.inference.engine_test import LIMITS, SMALL
from tutti.inference.limits import Stop
from tutti.inference.sampling import Sampling
from tutti.inference.slotengine import SlotEngine
from tutti.model.chunks import Layout

SLOTS = 16


class Told:
    """What a session was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.steps = 0

    def __call__(self, events: list[Event]) -> None:
        self.events += events
        self.steps += 1


@pytest.fixture(scope="module")
def engine() -> SlotEngine:
    made = SlotEngine(Layout(SMALL), rows=2, mode=Mode.FAST, slots=SLOTS)
    made.start(Weights("seed-1", parameters(SMALL, 1)[1]))
    return made


@pytest.fixture
def sessions(engine: SlotEngine) -> Iterator[Sessions]:
    made = Sessions(engine, most=40)
    yield made
    for session in ("one", "two"):
        made.close(session)
    while made.busy:
        made.step()


def join(name: str, **changes: object) -> Join:
    limits = replace(LIMITS, tokens=20, end=-1)
    prompt = tuple(tokens_of(SMALL, 5, seed=len(name)))
    return replace(Join(name, 0, prompt, Sampling(seed=3), limits), **changes)  # type: ignore[arg-type]


def test_each_session_is_told_of_its_own_requests_in_one_message_a_step(sessions: Sessions) -> None:
    told = {"one": Told(), "two": Told()}
    for session, tell in told.items():
        sessions.open(session, tell)
        for name in ("a", "bb"):
            sessions.admit(session, join(name, number=len(session)))
    steps = 0
    while sessions.busy:
        sessions.step()
        steps += 1
    for tell in told.values():
        assert tell.steps <= steps
        assert [each.id for each in tell.events if isinstance(each, Ended)] == ["a", "bb"]
        assert [each.at for each in tell.events if isinstance(each, Chosen) and each.id == "a"] == list(range(20))


@pytest.mark.parametrize("seed", range(4))
def test_whoever_leaves_frees_its_place_before_the_second_step_after(
    sessions: Sessions, engine: SlotEngine, seed: int
) -> None:
    """Queued, while its prompt is to be read, and while it is decoded; by a cancel or with its session."""
    source = random.Random(seed)
    for session in ("one", "two"):
        sessions.open(session, Told())
    names = [f"{number:02}" for number in range(17)]
    for session in ("one", "two"):
        for name in names:
            sessions.admit(session, join(name, prompt=tuple(tokens_of(SMALL, 5, seed=int(name)))))
    for _ in range(source.randrange(12)):
        sessions.step()
    before = engine.in_progress
    gone = source.sample(names, 9)
    for name in gone:
        sessions.cancel("one", name)
    sessions.close("two")
    sessions.step()
    assert engine.in_progress <= before - len(gone) - len(names)


def test_a_session_that_was_closed_admits_nothing(sessions: Sessions, engine: SlotEngine) -> None:
    sessions.open("one", told := Told())
    sessions.admit("one", join("a"))
    sessions.close("one")
    with pytest.raises(Refused) as refused:
        sessions.admit("one", join("b"))
    assert refused.value.reason == "STREAM_ENDED"
    sessions.step()
    assert engine.in_progress == 0
    assert told.events == []


def test_no_more_requests_are_in_progress_than_the_replica_accepts(sessions: Sessions) -> None:
    sessions.open("one", Told())
    for number in range(40):
        sessions.admit("one", join(str(number)))
    with pytest.raises(Refused) as refused:
        sessions.admit("one", join("more"))
    assert refused.value.reason == "REPLICA_FULL"
    sessions.cancel("one", "0")
    sessions.step()
    sessions.admit("one", join("more"))


def test_a_request_that_cannot_begin_is_refused_by_its_field(sessions: Sessions) -> None:
    sessions.open("one", Told())
    sessions.admit("one", join("a"))
    for wrong, field in (
        (join("long", prompt=(1,) * SMALL.context), "prompt"),
        (join("a"), "request"),
        (join("whole", given=(1,) * 20), "request"),
    ):
        with pytest.raises(InvalidField) as refused:
            sessions.admit("one", wrong)
        assert refused.value.field == field


def test_a_model_that_diverged_fails_each_request_once_and_serves_on() -> None:
    made = SlotEngine(Layout(SMALL), rows=2, mode=Mode.FAST, slots=SLOTS)
    made.start(Weights("diverged", torch.full((Layout(SMALL).elements,), float("nan"))))
    sessions = Sessions(made, most=40)
    sessions.open("one", told := Told())
    for _ in range(2):
        told.events.clear()
        for name in ("a", "b"):
            sessions.admit("one", join(name))
        while sessions.busy:
            sessions.step()
        assert [each.id for each in told.events if isinstance(each, Failed)] == ["a", "b"]
        assert not any(isinstance(each, Ended) and each.stop is not Stop.CANCELLED for each in told.events)
