"""Conversations: records survive their lines, and a wrong line is named."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.conversations.conversations import (
    STOPS,
    Answer,
    Conversation,
    InvalidConversation,
    Message,
    Preference,
    Role,
    from_lines,
    to_lines,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MESSAGES = st.lists(st.builds(Message, st.sampled_from(Role), TEXT), min_size=1, max_size=4).map(tuple)
CHANCE = st.floats(0, 1, allow_nan=False)
RECORDS: dict[type[Conversation | Answer | Preference], st.SearchStrategy[Conversation | Answer | Preference]] = {
    Conversation: st.builds(Conversation, MESSAGES, TEXT),
    Answer: st.builds(
        Answer,
        MESSAGES,
        st.integers(0, 2**40),
        TEXT,
        st.lists(st.integers(0, 2**20)).map(tuple),
        st.sampled_from(STOPS),
    ),
    Preference: st.builds(Preference, MESSAGES, st.tuples(TEXT, TEXT), CHANCE, st.floats(0.001, 100)),
}
HELLO = b'{"messages":[{"content":"hello","role":"user"}]}'


@pytest.mark.parametrize("kind", RECORDS)
@given(data=st.data())
def test_a_record_survives_its_line(kind: type[Conversation | Answer | Preference], data: st.DataObject) -> None:
    records = data.draw(st.lists(RECORDS[kind], max_size=3))
    lines = to_lines(records)
    assert list(from_lines(kind, lines)) == records
    assert to_lines(from_lines(kind, lines)) == lines


def test_the_part_does_not_change_the_identity_of_a_conversation() -> None:
    messages = (Message(Role.USER, "hello"),)
    assert Conversation(messages).digest == Conversation(messages, "train").digest
    assert Conversation(messages).digest != Conversation((Message(Role.SYSTEM, "hello"),)).digest


@pytest.mark.parametrize(
    ("kind", "line", "words"),
    [
        (Conversation, b"{", "line 2: "),
        (Conversation, b'{"messages":[]}', "line 2: messages: no message"),
        (Conversation, b'{"messages":[{"content":"x","role":"tool"}]}', "line 2: messages: role 'tool'; expected one"),
        (Conversation, b'{"messages":[{"role":"user"}]}', r"line 2\.messages\[0\]\.content: missing"),
        (Conversation, b"  ", "line 2: it is empty"),
        (Conversation, rb'{"messages":[{"content":"\ud800","role":"user"}]}', r"line 2: .*half of .* \\ud800"),
    ],
)
def test_a_wrong_line_is_named(kind: type[Conversation], line: bytes, words: str) -> None:
    with pytest.raises(InvalidConversation, match=words):
        list(from_lines(kind, HELLO + b"\n" + line + b"\n"))


def test_a_whole_surrogate_pair_is_a_character() -> None:
    (found,) = from_lines(Conversation, rb'{"messages":[{"content":"\ud83d\ude00","role":"user"}]}')
    assert found.messages[0].content == "\U0001f600"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first": 1.5}, "first: 1.5; expected a probability"),
        ({"weight": 0}, "weight: 0; expected a positive number"),
        ({"judged": -0.1}, "judged: -0.1; expected a share"),
        ({"answers": ["x"]}, "answers: 1 of them; expected 2"),
    ],
)
def test_an_impossible_preference_is_refused(change: dict[str, object], words: str) -> None:
    right = Preference((Message(Role.USER, "hello"),), ("a", "b"), 0.5).to_json()
    with pytest.raises(InvalidConversation, match=words):
        list(from_lines(Preference, json.dumps({**right, **change}).encode()))


def test_a_preference_without_a_share_of_judgements_is_written_as_before() -> None:
    plain = Preference((Message(Role.USER, "hello"),), ("a", "b"), 0.5)
    assert "judged" not in plain.to_json()
    both = [plain, replace(plain, judged=0.25)]
    assert list(from_lines(Preference, to_lines(both))) == both
