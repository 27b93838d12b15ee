"""Requests and events come through messages as they were, and requests that an engine cannot compute are refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.chat.tokens import MOST_SHAPE, NO_END, Event, Failed, admission, events_of, join_of, message_of
from tutti.contracts.chat.v1 import AdmitRequest, Bias, FollowResponse
from tutti.inference.engine import Chosen, Ended, Join, Shaping
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling

VOCABULARY = 300
IDS = st.integers(0, VOCABULARY - 1)
SHAPES = st.floats(-MOST_SHAPE, MOST_SHAPE)
NAMES = st.text("abc-/", min_size=1, max_size=20)
LOGPROBS = st.floats(max_value=0, allow_nan=False, width=32)


@st.composite
def joins(draw: st.DrawFn) -> Join:
    return Join(
        draw(NAMES),
        number=draw(st.integers(0, 2**64 - 1)),
        prompt=tuple(draw(st.lists(IDS, max_size=20))),
        sampling=Sampling(
            temperature=draw(st.floats(0, 1e300)),
            top_p=draw(st.floats(0, 1, exclude_min=True)),
            top_k=draw(st.integers(0, 2**32 - 1)),
            seed=draw(st.integers(0, 2**53 - 1)),
        ),
        limits=Limits(
            tokens=draw(st.integers(1, 2**32 - 1)),
            end=draw(st.just(NO_END) | st.integers(0, 2**32 - 1)),
            vocabulary=VOCABULARY,
            never=tuple(draw(st.lists(IDS, max_size=5))),
            ends=tuple(draw(st.lists(IDS, max_size=3))),
        ),
        shaping=Shaping(tuple(draw(st.lists(st.tuples(IDS, SHAPES), max_size=3))), draw(SHAPES), draw(SHAPES)),
        given=tuple(draw(st.lists(IDS, max_size=20))),
        salt=draw(st.just("") | NAMES),
        alternatives=draw(st.integers(0, VOCABULARY)),
        forced=tuple(draw(st.lists(IDS, max_size=5))),
    )


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Chosen, NAMES, st.integers(0, 2**20), IDS, LOGPROBS, st.lists(st.tuples(IDS, LOGPROBS)).map(tuple)),
    st.builds(Ended, NAMES, st.sampled_from(Stop)),
    st.builds(Failed, NAMES, NAMES),
)


@given(joins())
def test_a_request_comes_through_a_message_as_it_was(request: Join) -> None:
    sent = AdmitRequest.FromString(admission("session", request).SerializeToString())
    assert join_of(sent, VOCABULARY) == request
    assert sent.session == "session"


@given(st.lists(EVENTS))
def test_events_come_through_a_message_with_every_bit_and_ends_after_tokens(events: list[Event]) -> None:
    received = list(events_of(FollowResponse.FromString(message_of(events).SerializeToString())))
    tokens = [each for each in events if isinstance(each, Chosen)]
    assert received == tokens + [each for each in events if not isinstance(each, Chosen)]
    bits = [np.float32(each.logprob).tobytes() for each in tokens]
    assert [np.float32(each.logprob).tobytes() for each in received if isinstance(each, Chosen)] == bits


def ids(field: str, *values: int) -> Callable[[AdmitRequest], None]:
    def change(message: AdmitRequest) -> None:
        holder: Any = message
        *path, last = field.split(".")
        for part in path:
            holder = getattr(holder, part)
        getattr(holder, last)[:] = values

    return change


def value(field: str, to: object) -> Callable[[AdmitRequest], None]:
    def change(message: AdmitRequest) -> None:
        holder: Any = message
        *path, last = field.split(".")
        for part in path:
            holder = getattr(holder, part)
        setattr(holder, last, to)

    return change


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("request", value("request", "")),
        ("request", value("request", "x" * 1000)),
        ("salt", value("salt", "x" * 1000)),
        ("prompt", ids("prompt", 1, VOCABULARY)),
        ("given", ids("given", 2**32 - 1)),
        ("limits.vocabulary", value("limits.vocabulary", 0)),
        ("limits.vocabulary", value("limits.vocabulary", VOCABULARY + 1)),
        ("limits.never", ids("limits.never", VOCABULARY)),
        ("limits.never", ids("limits.never", *range(VOCABULARY))),
        ("tokens", value("limits.tokens", 0)),
        ("temperature", value("sampling.temperature", -1.0)),
        ("temperature", value("sampling.temperature", math.nan)),
        ("top_p", value("sampling.top_p", 0.0)),
        ("seed", value("sampling.seed", 2**53)),
        ("shaping.presence", value("shaping.presence", math.inf)),
        ("shaping.frequency", value("shaping.frequency", -2 * MOST_SHAPE)),
        ("shaping.bias", lambda message: message.shaping.bias.append(Bias(token=1, value=math.nan))),
        ("alternatives", value("alternatives", VOCABULARY + 1)),
    ],
)
def test_a_request_that_an_engine_cannot_compute_is_refused_by_its_field(
    field: str, change: Callable[[AdmitRequest], None]
) -> None:
    message = admission("session", Join("a", 0, (1, 2), Sampling(), Limits(5, 0, VOCABULARY)))
    join_of(message, VOCABULARY)
    change(message)
    with pytest.raises(InvalidField) as refused:
        join_of(message, VOCABULARY)
    assert refused.value.field == field


def test_an_unknown_stop_is_not_taken_for_an_end() -> None:
    message = message_of([Ended("a", Stop.END)])
    message.ends[0].stop = 99  # type: ignore[assignment]
    with pytest.raises(ValueError, match="99"):
        list(events_of(message))
