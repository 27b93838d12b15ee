"""Layouts of conversations in JSON: which one an object has, and the messages in it. `labels` reads pairs of answers.

Pure. The layouts: `messages` (ours, and OpenAI's: role and content), `prompt` (with a `completion` where there is one),
`alpaca` (instruction, input, output, history), `sharegpt` (conversations of from and value) and `hh` (chosen and
rejected answers, or transcripts, of which the chosen one is the demonstration). Promises: an object becomes messages or
an Unfit with a reason; nothing is repaired but roles that are spelled in another way. A field that changes the meaning
of a record is read or refused by name; `unread` lists the other fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from tutti.corpus.conversations.conversations import Message, Messages, Role


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
    UNREAD_FIELD = "unread_field"  # that changes the meaning of the record
    INVERTED_SCORES = "inverted_scores"  # the rejected answer has the higher score
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
SYSTEM = ("system", "system_prompt", "system_message")
"""The fields of a record that hold a system message."""
CHOSEN_SCORES = ("score_chosen", "chosen_score", "chosen_rating", "chosen-rating")
REJECTED_SCORES = ("score_rejected", "rejected_score", "rejected_rating", "rejected-rating")
_TRAINED = ("weight", "train", "loss")
"""The fields of a message that are 0 or false if it is no example."""
_OTHERS = ("tool_calls", "function_call", "refusal", "audio", "images", "train_detail")
"""The fields of a message without which it means something else."""
_BESIDE = ("tools", "functions", "image", "images", "video", "videos", "audio", "audios", "context")
"""The fields of a record without which it means something else."""
_READ: Mapping[Layout, frozenset[str]] = {
    Layout.HH: frozenset(("chosen", "rejected", "prompt", "history", *CHOSEN_SCORES, *REJECTED_SCORES)),
    Layout.SHAREGPT: frozenset(("conversations",)),
    Layout.ALPACA: frozenset(("instruction", "input", "output", "history")),
    Layout.MESSAGES: frozenset(("messages",)),
    Layout.PROMPT: frozenset(("prompt", "history")),
}
_ANSWERS = ("completion", "response")
_SPELLINGS = (("role", "content"), ("from", "value"))
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
    meaning(record)
    return sound(with_system(record, _READERS[layout](record)))


def meaning(record: Object) -> None:
    """Raise Unfit if the record has a field that is not read and changes its meaning."""
    for key in _BESIDE:
        if record.get(key):
            raise Unfit(Reason.UNREAD_FIELD, f"{key} is not read and changes the meaning; expected none")
    label, weight = record.get("label"), record.get("weight")
    if "prompt" in record and isinstance(label, bool | int | float) and not label:
        raise Unfit(Reason.UNREAD_FIELD, f"label is {label}: a bad answer; expected good ones, or chosen and rejected")
    if weight is not None and weight == 0:
        raise Unfit(Reason.UNREAD_FIELD, "weight is 0: the record is no example; expected none of weight 0")


def unread(layout: Layout, record: Object) -> frozenset[str]:
    """The fields of a record, and of its messages, that are not read and do not change its meaning."""
    read = {*_READ[layout], *SYSTEM, *_BESIDE, "license", "licence"}
    if layout is Layout.HH:
        read.update(next((keys for keys in _PROMPTS if keys[0] in record), ()))
    if layout is Layout.PROMPT:
        read.update([next((key for key in _ANSWERS if record.get(key) is not None), "completion"), "label"])
    found = {field_name(name) for name in record if name not in read}
    for key in ("messages", "conversations", "prompt", "chosen"):
        value = record.get(key) if key in read else None
        for each in value if isinstance(value, list) else ():
            if isinstance(each, dict):
                known = {*_spelling(each), *_TRAINED, *_OTHERS}
                found.update(f"{key}[].{field_name(name)}" for name in each if name not in known)
    return frozenset(found)


def field_name(name: str) -> str:
    """The name of a field as it is, or if it is empty, long or has characters that cannot be shown, a part of it in
    quotation marks and escaped.
    """
    return name if name and len(name) <= _SHOWN and name.isprintable() else _shown(name)


def with_system(record: Object, messages: Sequence[Message]) -> list[Message]:
    """The messages after the system message that a field of the record holds, if there is one. Raises Unfit."""
    stated = [_string(record[key], key) for key in SYSTEM if record.get(key) not in (None, "")]
    stated += [each.content for each in messages[:1] if each.role is Role.SYSTEM]
    if len(set(stated)) > 1:
        raise Unfit(Reason.ROLE_ORDER, f"{len(set(stated))} different system messages; expected one")
    rest = messages[1:] if messages and messages[0].role is Role.SYSTEM else messages
    return [*(Message(Role.SYSTEM, text) for text in stated[:1]), *rest]


def _messages(record: Object) -> list[Message]:
    return [_message(each) for each in _list(record, "messages")]


def _prompt(record: Object) -> list[Message]:
    """TRL's prompt and completion are strings or lists of messages."""
    found = [*_history(record), *_asked(record["prompt"])]
    completion = next((record[key] for key in _ANSWERS if record.get(key) is not None), None)
    return found if completion is None else found + turns(completion, "completion", Role.ASSISTANT)


def _alpaca(record: Object) -> list[Message]:
    return [*_instruction(record), Message(Role.ASSISTANT, _text(record, "output"))]


def _instruction(record: Object) -> list[Message]:
    asked, more = _text(record, "instruction"), record.get("input")
    if more is not None and _string(more, "input").strip():
        asked = f"{asked}\n\n{more}"
    return [*_history(record), Message(Role.USER, asked)]


def _history(record: Object) -> list[Message]:
    """Earlier turns: a list of questions with their answers. Raises Unfit."""
    found = list[Message]()
    value = record.get("history") or []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, list | tuple) or len(each) != 2:
            raise Unfit(Reason.UNREAD_FIELD, "history is not a list of questions with answers; expected [[…, …], …]")
        found += [
            Message(Role.USER, _string(each[0], "history")),
            Message(Role.ASSISTANT, _string(each[1], "history")),
        ]
    return found


def _sharegpt(record: Object) -> list[Message]:
    return [_message(each) for each in _list(record, "conversations")]


def _hh(record: Object) -> list[Message]:
    chosen_first(record)
    return answered(record, "chosen")


_READERS: Mapping[Layout, Callable[[Object], list[Message]]] = {
    Layout.MESSAGES: _messages,
    Layout.PROMPT: _prompt,
    Layout.ALPACA: _alpaca,
    Layout.SHAREGPT: _sharegpt,
    Layout.HH: _hh,
}
_PROMPTS = (("prompt", "history"), ("instruction", "input", "history"), ("conversations",), ("messages",))
"""The fields of a pair of answers that hold its prompt: the first that is there."""


def chosen_first(record: Object) -> bool:
    """True if the chosen answer is better by the scores of both, or has none beside it; False if these are equal.

    Raises Unfit if the rejected answer has the higher score.
    """
    chosen, rejected = (
        next((record[key] for key in keys if record.get(key) is not None), None)
        for keys in (CHOSEN_SCORES, REJECTED_SCORES)
    )
    if chosen is None or rejected is None:
        return True
    if not isinstance(chosen, int | float) or not isinstance(rejected, int | float):
        raise Unfit(Reason.UNKNOWN_SCORE, f"scores {chosen!r:.30} and {rejected!r:.30}; expected two numbers")
    if not chosen >= rejected:
        # A number of JSON may be too large to be formatted as a float.
        seen = f"the chosen answer has the score {chosen!r:.30}, the rejected one {rejected!r:.30}"
        raise Unfit(Reason.INVERTED_SCORES, f"{seen}; expected at least as much for the chosen one")
    return chosen > rejected


def answered(record: Object, key: str) -> list[Message]:
    """The conversation that ends with the answer `key` of a record. Raises Unfit."""
    value, before = record[key], _before(record)
    if isinstance(value, str) and before and not _TURN.match(value.strip()):
        return [*before, Message(Role.ASSISTANT, value)]
    said = transcript([value] if isinstance(value, dict) else value, key)
    if not before or not said:
        return said
    if said[0].role is Role.ASSISTANT:
        return [*before, *said]
    if before[-1].content.strip() not in {each.content.strip() for each in said[:-1]}:
        raise Unfit(Reason.OTHER_PROMPT, f"{key} answers another prompt than the field prompt; expected the same")
    if before[0].role is Role.SYSTEM and said[0].role is not Role.SYSTEM:
        return [before[0], *said]
    return said


def _before(record: Object) -> list[Message]:
    """The prompt beside two answers; nothing if it is a part of both. Raises Unfit."""
    if "prompt" in record:
        return [*_history(record), *_asked(record["prompt"])]
    if "instruction" in record:
        return _instruction(record)
    key = next((key for key in ("conversations", "messages") if record.get(key)), "")
    said = [_message(each) for each in _list(record, key)] if key else []
    return said if said and said[-1].role is not Role.ASSISTANT else []


def _asked(value: object) -> list[Message]:
    """The messages of a prompt: a list, a transcript up to the answer, or a text. Raises Unfit."""
    if isinstance(value, str) and _TURN.match(value.strip()):
        said = transcript(value, "prompt")
        return said[:-1] if said[-1].role is Role.ASSISTANT and not said[-1].content else said
    return turns(value, "prompt", Role.USER)


def transcript(value: object, key: str) -> list[Message]:
    """The messages of a list, or of a text with Human: and Assistant: in turn, as HH has them. Raises Unfit."""
    if isinstance(value, list):
        return [_message(each) for each in value]
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
        return [_message(each) for each in value]
    return [Message(role, _string(value, key))]


def _spelling(value: Object) -> tuple[str, str]:
    """The keys of the role and the content of a message: OpenAI's, or ShareGPT's."""
    return next((keys for keys in _SPELLINGS if keys[0] in value), _SPELLINGS[0])


def _message(value: object) -> Message:
    if not isinstance(value, dict):
        raise Unfit(Reason.NOT_AN_OBJECT, f"a message is {_kind(value)}; expected an object of role and content")
    role, content = _spelling(value)
    named = _text(value, role)
    author = _ROLES.get(named.strip().lower())
    if author is None:
        raise Unfit(Reason.UNKNOWN_ROLE, f"{role} {_shown(named)}; expected system, user or assistant")
    for key in _OTHERS:
        if value.get(key):
            raise Unfit(Reason.UNREAD_FIELD, f"{key} of a message is not read and changes the meaning; expected none")
    parts = value.get(content)
    text = "".join(_part(each) for each in parts) if isinstance(parts, list) else _text(value, content)
    return Message(author, text, trained=_is_trained(value) or author is not Role.ASSISTANT)


def _is_trained(message: Object) -> bool:
    """False if a message is no example, but a part of the prompt of later ones. Raises Unfit."""
    stated = {key: message[key] for key in _TRAINED if message.get(key) is not None}
    for key, value in stated.items():
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise Unfit(Reason.UNREAD_FIELD, f"{key} of a message is {value!r:.30}; expected 0 or 1")
    return all(stated.values())


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
