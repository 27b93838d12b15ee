"""Requests as clients send them: what is read, and what is refused by which name."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.chat.fields import APIS, CHAT, COMPLETIONS, MOST_CHOICES, Use, values_of
from tutti.chat.kinds import MOST_MESSAGES, MOST_PROMPTS
from tutti.chat.requests import SEEDS, as_body, hashed, read, read_body, read_completion
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
    assert (found.stream, found.include_usage, found.stops, found.tokens) == (False, False, (), None)
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
            top_k=3,
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
    assert found.sampling(7) == Sampling(0, 0.5, 3, seed=5)
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
    assert (found.seed, found.given_seed) == (hashed(str(seed)), seed)
    assert 0 <= hashed(str(seed)) < SEEDS


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
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": 7}, "stop"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"01": 1}}, "logit_bias"),
        ({"logit_bias": {"4294967296": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 10**400}}, "logit_bias"),
        ({"n": 0}, "n"),
        ({"n": MOST_CHOICES + 1}, "n"),
        ({"n": True}, "n"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"\ud800": 1}, "\\ud800"),
        ({"tools": [{}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_q": 1}, "top_q"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as refused:
        read(body(**more))
    assert refused.value.field == param


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [2**32]}, "prompt"),
        ({"prompt": [1.5]}, "prompt[0]"),
        ({"prompt": ["a", []]}, "prompt[1]"),
        ({"prompt": [["a"]]}, "prompt[0]"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": ["a"] * (MOST_PROMPTS + 1)}, "prompt"),
        ({"prompt": ["a"] * 9, "n": 15}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"logprobs": 21}, "logprobs"),
        ({"echo": 1}, "echo"),
        ({"suffix": "s"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"messages": HELLO}, "messages"),
    ],
)
def test_what_cannot_be_completed_is_refused_by_its_name(more: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as refused:
        read_completion({"model": "toy", "prompt": "a", **more})
    assert refused.value.field == param


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ("a",)),
        ("", ("",)),
        ([1, 2], ((1, 2),)),
        (["a", [3], "b"], ("a", (3,), "b")),
    ],
)
def test_a_prompt_is_a_text_or_ids_or_several(prompt: Any, prompts: Any) -> None:
    assert read_completion({"model": "toy", "prompt": prompt}).prompts == prompts


def test_each_choice_is_a_request_of_its_own_with_a_seed_that_follows() -> None:
    request = read_completion({"model": "toy", "prompt": ["a", "b"], "n": 3, "seed": 5})
    singles = request.singles(7)
    assert [each.prompts for each in singles] == [("a",)] * 3 + [("b",)] * 3
    assert [each.seed for each in singles[:3]] == [each.seed for each in singles[3:]]
    assert singles[0].seed == 5
    assert len({each.seed for each in singles}) == 3
    for each in singles:
        assert each.choices == 1
        assert read_body(as_body(each)) == each
    assert [each.seed for each in read(body(n=2)).singles(7)] == [None, hashed("7/1")]


@pytest.mark.parametrize("path", APIS)
@given(data=st.data())
def test_any_json_is_read_or_refused_by_a_name(path: str, data: st.DataObject) -> None:
    sent = data.draw(JSON | st.dictionaries(st.sampled_from(sorted(APIS[path])), JSON))
    wanted = {name: "a" for name, each in APIS[path].items() if each.required} | {"messages": HELLO}
    field, found = "", None
    try:
        found = values_of(APIS[path], {**wanted, **sent} if isinstance(sent, dict) else sent)
    except InvalidField as refused:
        field = refused.field
    assert field or found


@pytest.mark.parametrize("fields", [CHAT, COMPLETIONS], ids=["chat", "completions"])
def test_the_table_refuses_only_fields_whose_neutral_values_pass(fields: Any) -> None:
    wanted = {"model": "toy", "messages": HELLO, "prompt": "a"}
    for name, field in fields.items():
        for value in field.neutral if field.use is Use.REFUSED else ():
            values_of(fields, {**{each: wanted[each] for each in wanted if each in fields}, name: value})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "stream": st.booleans(),
            "stream_options": st.fixed_dictionaries({"include_usage": st.booleans()}),
            "stop": st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), max_size=4),
            "temperature": st.floats(0, 2),
            "top_p": st.floats(0.01, 1),
            "top_k": st.integers(0, 99),
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


DEFAULTS = st.builds(Sampling, st.floats(0, 9), st.floats(0.01, 1), st.integers(0, 99))
ASKED = st.fixed_dictionaries(
    {}, optional={"temperature": st.floats(0, 2), "top_p": st.floats(0.01, 1), "top_k": st.integers(0, 99)}
)


@given(asked=ASKED, seed=st.none() | st.integers(0, SEEDS - 1), defaults=DEFAULTS, later=DEFAULTS)
def test_what_a_request_says_wins_and_the_rest_is_that_of_the_model_when_it_began(
    asked: dict[str, Any], seed: int | None, defaults: Sampling, later: Sampling
) -> None:
    begun = read(body(**asked, seed=seed)).filled(defaults)
    kept = read_body(json.loads(json.dumps(as_body(begun))))
    assert kept == begun
    expected = replace(defaults, **asked, seed=7 if seed is None else seed)
    assert kept.sampling(7) == kept.sampling(7, later) == kept.filled(later).sampling(7) == expected


def test_a_request_that_was_journaled_before_top_k_is_drawn_from_all_tokens() -> None:
    stored = {key: value for key, value in as_body(read(body()).filled(Sampling(0.7))).items() if key != "top_k"}
    assert read_body(stored).filled(Sampling(top_k=9)).sampling(7) == Sampling(0.7, seed=7)


def test_requests_are_other_ones_for_a_retry_where_one_says_the_default_that_the_other_leaves_out() -> None:
    assert as_body(read(body())) != as_body(read(body(temperature=1)))
