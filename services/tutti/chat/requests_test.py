"""Requests as clients send them: what is read, and what is refused by which name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.chat.requests import FIELDS, MOST_MESSAGES, SEEDS, Use, as_body, hashed, read
from tutti.corpus.conversations.conversations import Message, Role
from tutti.inference.engine import Shaping
from tutti.inference.sampling import Sampling

HELLO = [{"role": "user", "content": "hello"}]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def body(**more: Any) -> dict[str, Any]:
    return {"model": "toy", "messages": HELLO, **more}


def test_a_request_is_read_with_the_defaults_of_the_api() -> None:
    found = read(body())
    assert (found.model, found.messages) == ("toy", (Message(Role.USER, "hello"),))
    assert (found.stream, found.include_usage, found.stops, found.tokens) == (False, False, (), 0)
    assert found.sampling(7) == Sampling(seed=7)
    assert found.shaping == Shaping()


def test_every_field_of_a_full_request_is_read() -> None:
    found = read(
        body(
            stream=True,
            stream_options={"include_usage": True},
            stop=["\n", "END"],
            seed=5,
            temperature=0,
            top_p=0.5,
            max_tokens=9,
            presence_penalty=-2,
            frequency_penalty=1.5,
            logit_bias={"12": 100, "3": -100},
            n=1,
            tools=[],
            tool_choice="none",
            response_format={"type": "text"},
            user="somebody",
            metadata={"a": "b"},
            logprobs=None,
        )
    )
    assert (found.stream, found.include_usage, found.stops, found.tokens) == (True, True, ("\n", "END"), 9)
    assert found.sampling(7) == Sampling(0, 0.5, seed=5)
    assert found.shaping == Shaping(((3, -100.0), (12, 100.0)), -2.0, 1.5)


def test_messages_have_texts_or_text_parts_of_every_role() -> None:
    parts = [{"type": "text", "text": "two "}, {"type": "text", "text": "parts"}]
    sent = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": parts, "name": "ann"},
        {"role": "assistant", "content": "yes", "tool_calls": None, "refusal": None},
        {"role": "user", "content": ""},
    ]
    assert read(body(messages=sent)).messages == (
        Message(Role.SYSTEM, "be brief"),
        Message(Role.USER, "two parts"),
        Message(Role.ASSISTANT, "yes"),
        Message(Role.USER, ""),
    )


@pytest.mark.parametrize("seed", [-1, SEEDS, 2**63 - 1, -(2**63)])
def test_a_seed_outside_the_range_of_draws_is_hashed_and_both_are_known(seed: int) -> None:
    found = read(body(seed=seed))
    assert (found.seed, found.given_seed) == (hashed(seed), seed)
    assert 0 <= hashed(seed) < SEEDS


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": HELLO * (MOST_MESSAGES + 1)}, "messages"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "hi"}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"other": True}}, "stream_options"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": 7}, "stop"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"01": 1}}, "logit_bias"),
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"tools": [{}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_q": 1}, "top_q"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as refused:
        read(body(**more))
    assert refused.value.field == param


@given(JSON | st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON))
def test_any_json_is_read_or_refused_by_a_name(sent: Any) -> None:
    field, found = "", None
    try:
        found = read({**body(), **sent} if isinstance(sent, dict) else sent)
    except InvalidField as refused:
        field = refused.field
    assert field or (found and found.messages)


def test_the_table_refuses_only_fields_whose_neutral_values_pass() -> None:
    for name, field in FIELDS.items():
        for value in field.neutral if field.use is Use.REFUSED else ():
            read(body(**{name: value}))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "stream": st.booleans(),
            "stream_options": st.fixed_dictionaries({"include_usage": st.booleans()}),
            "stop": st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), max_size=4),
            "temperature": st.floats(0, 2),
            "top_p": st.floats(0.01, 1),
            "seed": st.integers(-(2**63), 2**63 - 1),
            "max_tokens": st.integers(1, 999),
            "logit_bias": st.dictionaries(st.integers(0, 999).map(str), st.floats(-100, 100), max_size=3),
            "presence_penalty": st.floats(-2, 2),
            "messages": st.lists(
                st.fixed_dictionaries(
                    {
                        "role": st.sampled_from(["system", "user"]),
                        "content": st.text(st.characters(codec="utf-8")),
                    }
                ),
                min_size=1,
                max_size=3,
            ),
        },
    )
)
def test_the_body_of_a_request_is_read_as_the_same_request(more: dict[str, Any]) -> None:
    request = read(body(**more))
    assert read(json.loads(json.dumps(as_body(request)))) == request
