"""Layouts of conversations in JSON: which one an object has, and the messages in it. `labels` reads pairs of answers.

Pure. The layouts: `messages` (ours, and OpenAI's: role and content), `prompt` (with a `completion` where there is one),
`alpaca` (instruction, input, output), `sharegpt` (conversations of from and value) and `hh` (chosen and rejected
transcripts, of which the chosen one is the demonstration). Promises: an object becomes messages or an Unfit with a
reason; nothing is repaired but roles that are spelled in another way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from tutti.corpus.conversations import Message, Messages, Role


class Reason(StrEnum):
    """The reason why a record is not a conversation."""

    OTHER_FILE = "other_file"  # no JSON lines and no JSON
    UNREADABLE = "unreadable"  # a file that cannot be opened, or is a link out of the folder
    DAMAGED = "damaged"  # cut short, or what cannot be decompressed
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_LAYOUT = "unknown_layout"
    OTHER_LAYOUT = "other_layout"  # than the records before it in the file
    NOT_A_STRING = "not_a_string"
    NOT_A_TRANSCRIPT = "not_a_transcript"
    NO_MESSAGE = "no_message"
    EMPTY_MESSAGE = "empty_message"
    UNKNOWN_ROLE = "unknown_role"
    ROLE_ORDER = "role_order"  # a system message that is not the first, or is the only one
    LONE_SURROGATE = "lone_surrogate"
    NO_ANSWER = "no_answer"  # of an assistant, in a pair of answers
    OTHER_PROMPT = "other_prompt"  # two answers of a pair to different prompts
    UNKNOWN_SCORE = "unknown_score"
    TWICE = "twice"
    OTHER_LICENCE = "other_licence"  # than those that are allowed
    NO_LICENCE = "no_licence"  # that is known, where only some are allowed


class Unfit(Exception):
    """A record is no conversation: the reason, and in `detail` what was seen and what was expected."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Layout(StrEnum):
    """The layout of a file of conversations."""

    MESSAGES = "messages"
    PROMPT = "prompt"
    ALPACA = "alpaca"
    SHAREGPT = "sharegpt"
    HH = "hh"


KEYS: Mapping[Layout, tuple[str, ...]] = {
    Layout.HH: ("chosen", "rejected"),
    Layout.SHAREGPT: ("conversations",),
    Layout.ALPACA: ("instruction", "output"),
    Layout.MESSAGES: ("messages",),
    Layout.PROMPT: ("prompt",),
}
"""The keys by which a layout is recognised, the most specific layout first."""

EXPECTED = (
    "records with messages, prompt, instruction and output (Alpaca), conversations (ShareGPT), or chosen and rejected "
    "(HH)"
)
_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "human": Role.USER,
    "prompter": Role.USER,
    "assistant": Role.ASSISTANT,
    "gpt": Role.ASSISTANT,
    "chatgpt": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "model": Role.ASSISTANT,
}
_TURN = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_SHOWN = 60
Object = Mapping[str, Any]


def layout_of(record: Object) -> Layout | None:
    """The layout that a record has by its keys; None for no known one."""
    return next((layout for layout, keys in KEYS.items() if all(key in record for key in keys)), None)


def conversation(layout: Layout, record: Object) -> Messages:
    """The messages of a record. Raises Unfit."""
    if not all(key in record for key in KEYS[layout]):
        raise Unfit(Reason.OTHER_LAYOUT, f"no {', '.join(KEYS[layout])}, as the first record of its file has")
    return sound(_READERS[layout](record))


def _messages(record: Object) -> list[Message]:
    return [_message(each, "role", "content") for each in _list(record, "messages")]


def _prompt(record: Object) -> list[Message]:
    """TRL's prompt and completion are strings or lists of messages."""
    found = turns(record["prompt"], "prompt", Role.USER)
    completion = next((record[key] for key in ("completion", "response") if record.get(key) is not None), None)
    return found if completion is None else found + turns(completion, "completion", Role.ASSISTANT)


def _alpaca(record: Object) -> list[Message]:
    asked, more = _text(record, "instruction"), record.get("input")
    if more is not None and _string(more, "input").strip():
        asked = f"{asked}\n\n{more}"
    system = record.get("system")
    first = [Message(Role.SYSTEM, _string(system, "system"))] if system else []
    return [*first, Message(Role.USER, asked), Message(Role.ASSISTANT, _text(record, "output"))]


def _sharegpt(record: Object) -> list[Message]:
    return [_message(each, "from", "value") for each in _list(record, "conversations")]


def _hh(record: Object) -> list[Message]:
    return transcript(record["chosen"], "chosen")


_READERS: Mapping[Layout, Callable[[Object], list[Message]]] = {
    Layout.MESSAGES: _messages,
    Layout.PROMPT: _prompt,
    Layout.ALPACA: _alpaca,
    Layout.SHAREGPT: _sharegpt,
    Layout.HH: _hh,
}


def transcript(value: object, key: str) -> list[Message]:
    """The messages of a list, or of a text with Human: and Assistant: in turn, as HH has them. Raises Unfit."""
    if isinstance(value, list):
        return [_message(each, "role", "content") for each in value]
    text = _string(value, key).strip()
    found = list(_TURN.finditer(text))
    if not found or found[0].start() != 0:
        seen = _shown(text)
        raise Unfit(Reason.NOT_A_TRANSCRIPT, f"{key} begins with {seen}; expected Human: and Assistant: in turn")
    ends = [turn.start() for turn in found[1:]] + [len(text)]
    return [
        Message(Role.USER if turn[1] == "Human" else Role.ASSISTANT, text[turn.end() : end].strip())
        for turn, end in zip(found, ends, strict=True)
    ]


def turns(value: object, key: str, role: Role) -> list[Message]:
    """The messages of a list, or the one that a text is. Raises Unfit."""
    if isinstance(value, list):
        return [_message(each, "role", "content") for each in value]
    return [Message(role, _string(value, key))]


def _message(value: object, role: str, content: str) -> Message:
    if not isinstance(value, dict):
        raise Unfit(Reason.NOT_AN_OBJECT, f"a message is {_kind(value)}; expected an object of {role} and {content}")
    named = _text(value, role)
    found = _ROLES.get(named.strip().lower())
    if found is None:
        raise Unfit(Reason.UNKNOWN_ROLE, f"{role} {_shown(named)}; expected system, user or assistant")
    parts = value.get(content)
    if isinstance(parts, list):
        return Message(found, "".join(_part(each) for each in parts))
    return Message(found, _text(value, content))


def _part(value: object) -> str:
    """A part of a message in OpenAI's layout, which has to be text."""
    if not isinstance(value, dict) or value.get("type") != "text":
        kind = value.get("type") if isinstance(value, dict) else value
        raise Unfit(Reason.NOT_A_STRING, f"a part of a message is {_shown(str(kind))}; expected one of type text")
    return _text(value, "text")


def sound(messages: Sequence[Message]) -> Messages:
    """The messages, if a model can be prompted with them or trained on them. An empty system message is none."""
    found = [each for each in messages if each.role is not Role.SYSTEM or each.content.strip()]
    if not found:
        raise Unfit(Reason.NO_MESSAGE, "a conversation without a message; expected at least one")
    for number, each in enumerate(found, 1):
        if not each.content.strip():
            raise Unfit(Reason.EMPTY_MESSAGE, f"message {number}, of the {each.role}, is empty; expected text")
        if each.role is Role.SYSTEM and (number > 1 or len(found) == 1):
            raise Unfit(Reason.ROLE_ORDER, f"message {number} is of the system; expected it first, before others")
        if not _is_text(each.content):
            raise Unfit(Reason.LONE_SURROGATE, f"message {number} has half a surrogate pair; expected Unicode text")
    return tuple(found)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _list(record: Object, key: str) -> list[object]:
    value = record[key]
    if not isinstance(value, list):
        raise Unfit(Reason.NO_MESSAGE, f"{key} is {_kind(value)}; expected a list of messages")
    return value


def _text(record: Object, key: str) -> str:
    return _string(record.get(key), key)


def _string(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise Unfit(Reason.NOT_A_STRING, f"{key} is {_kind(value)}; expected a string")
    return value


def _kind(value: object) -> str:
    names = {"NoneType": "missing or null", "dict": "an object", "list": "a list", "str": "a string"}
    return names.get(type(value).__name__, type(value).__name__)


def _shown(text: str) -> str:
    return ascii(text[:_SHOWN])
