"""Layouts of conversations: each becomes the same messages, and what is no conversation has a named reason."""

from typing import Any

import pytest

from tutti.corpus.conversations.conversations import Message, Messages, Role
from tutti.corpus.conversations.layouts import Layout, conversation, layout_of
from tutti.corpus.conversations.unfit import Reason, Unfit

ASKED = Message(Role.USER, "Why?")
ANSWERED = Message(Role.ASSISTANT, "So.")
HH = "\n\nHuman: Why?\n\nAssistant: So."


def read(record: dict[str, Any]) -> tuple[Layout, Messages]:
    layout = layout_of(record)
    assert layout is not None
    return layout, conversation(layout, record)


@pytest.mark.parametrize(
    ("layout", "record"),
    [
        ("messages", {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]}),
        (
            "messages",
            {
                "messages": [
                    {"role": "system", "content": ""},
                    {"role": "user", "content": [{"type": "text", "text": "Wh"}, {"type": "text", "text": "y?"}]},
                    {"role": "assistant", "content": "So.", "weight": 1},
                ],
                "tools": [],
            },
        ),
        ("prompt", {"prompt": "Why?", "completion": "So."}),
        (
            "prompt",
            {
                "prompt": [{"role": "user", "content": "Why?"}],
                "completion": [{"role": "assistant", "content": "So."}],
            },
        ),
        ("alpaca", {"instruction": "Why?", "input": "", "output": "So."}),
        ("sharegpt", {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]}),
        ("hh", {"chosen": HH, "rejected": "\n\nHuman: Why?\n\nAssistant: No."}),
        (
            "hh",
            {
                "prompt": "Why?",
                "chosen": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}],
                "rejected": [],
                "messages": [],
            },
        ),
    ],
)
def test_each_layout_becomes_the_same_messages(layout: str, record: dict[str, Any]) -> None:
    assert read(record) == (layout, (ASKED, ANSWERED))


def test_a_prompt_alone_an_input_and_a_system_message_are_read() -> None:
    assert read({"prompt": "Why?"}) == (Layout.PROMPT, (ASKED,))
    _, messages = read({"instruction": "Add", "input": "1 2", "output": "3", "system": "Be brief"})
    assert [each.content for each in messages] == ["Be brief", "Add\n\n1 2", "3"]
    assert messages[0].role is Role.SYSTEM


def test_a_transcript_keeps_blank_lines_and_names_of_speakers_within_a_line() -> None:
    _, messages = read({"chosen": "Human: One\n\ntwo Human: three\n\nAssistant: four", "rejected": ""})
    assert [each.content for each in messages] == ["One\n\ntwo Human: three", "four"]


def message(role: object, content: object) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content}]}


@pytest.mark.parametrize(
    ("record", "reason", "words"),
    [
        (message("wizard", "x"), Reason.UNKNOWN_ROLE, "'wizard'; expected system, user or assistant"),
        (message("user", " \n"), Reason.EMPTY_MESSAGE, "message 1, of the user"),
        (message("user", None), Reason.NOT_A_STRING, "content is missing or null"),
        (message(None, "x"), Reason.NOT_A_STRING, "role is missing"),
        (message("user", [{"type": "image_url"}]), Reason.NOT_A_STRING, "'image_url'"),
        (message("system", "x"), Reason.ROLE_ORDER, "expected it first"),
        (message("user", "a\ud800b"), Reason.LONE_SURROGATE, "half a surrogate pair"),
        ({"messages": []}, Reason.NO_MESSAGE, "at least one"),
        ({"messages": "x"}, Reason.NO_MESSAGE, "a list of messages"),
        ({"messages": ["x"]}, Reason.NOT_AN_OBJECT, "a message is a string"),
        ({"prompt": 7}, Reason.NOT_A_STRING, "prompt is int"),
        ({"chosen": "Once", "rejected": "x"}, Reason.NOT_A_TRANSCRIPT, "begins with 'Once'"),
        ({"instruction": "x", "output": ""}, Reason.EMPTY_MESSAGE, "message 2"),
    ],
)
def test_what_is_no_conversation_has_a_named_reason(record: dict[str, Any], reason: Reason, words: str) -> None:
    with pytest.raises(Unfit, match=words) as refused:
        read(record)
    assert refused.value.reason is reason


def test_a_record_of_another_layout_than_its_file_is_refused_and_one_of_no_layout_is_known() -> None:
    assert layout_of({"text": "x"}) is None
    with pytest.raises(Unfit, match="no messages, as the first record"):
        conversation(Layout.MESSAGES, {"prompt": "x"})
