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

from tutti.corpus.conversations.conversations import Message, Messages, Role
from tutti.corpus.conversations.fields import Sense, chosen_first, is_flag, is_trained, require, sense_of
from tutti.corpus.conversations.fields import unread as unread_field
from tutti.corpus.conversations.unfit import Object, Reason, Unfit, field_name, kind_of, shown


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
_READ: Mapping[Layout, tuple[str, ...]] = {
    Layout.HH: ("chosen", "rejected"),
    Layout.SHAREGPT: ("conversations",),
    Layout.ALPACA: ("instruction", "input", "output", "history"),
    Layout.MESSAGES: ("messages",),
    Layout.PROMPT: ("prompt", "history"),
}
_ANSWERS = ("completion", "response", "output", "answer")
"""The fields of an answer beside a prompt: the first that is there."""
_IN_PAIRS = (Sense.BESIDE,)
_OF_MESSAGES = (Sense.BESIDE, Sense.GOOD, Sense.SCORE)
_OF_RECORDS = (Sense.TRAINED, Sense.MASKED)
"""The senses of fields that are refused if they change the meaning of two answers, of one, and of a record besides."""
_SPELLINGS = (("role", "content"), ("from", "value"))
_TURN = re.compile(r"(?:\A|\n\n)(Human|Assistant):")


def layout_of(record: Object) -> Layout | None:
    """The layout that a record has by its keys; None for no known one."""
    return next((layout for layout, keys in KEYS.items() if all(key in record for key in keys)), None)


def conversation(layout: Layout, record: Object) -> Messages:
    """The messages of a record. Raises Unfit."""
    if not all(key in record for key in KEYS[layout]):
        raise Unfit(Reason.OTHER_LAYOUT, f"no {', '.join(KEYS[layout])}, as the first record of its file has")
    meaning(record)
    found = sound(with_system(record, _READERS[layout](record)))
    whole(layout, record, found)
    return found


def meaning(record: Object) -> None:
    """Raise Unfit if a field says that the record is no example of a good answer, or is what its answer refers to.

    The score beside two `answers` says which one is better.
    """
    require(
        record, (*_OF_MESSAGES, *_OF_RECORDS) if "answers" not in record else (*_IN_PAIRS, Sense.GOOD, *_OF_RECORDS)
    )


def whole(layout: Layout, record: Object, messages: Sequence[Message]) -> None:
    """Raise Unfit if a field holds a part of a prompt or an answer that is neither read nor in one of the messages."""
    read = _read(layout, record)
    for name, value in record.items():
        if value and name not in read and sense_of(name) is Sense.TEXT and not _is_repeated(name, record, messages):
            raise unread_field(name)


def _read(layout: Layout, record: Object) -> tuple[str, ...]:
    """The fields of a record that are read for their names in this layout."""
    more: tuple[str, ...] = ()
    if layout is Layout.HH:
        more = next((keys for keys in _PROMPTS if keys[0] in record), ())
    if layout is Layout.PROMPT:
        more = tuple(key for key in _ANSWERS if record.get(key) is not None)[:1]
    return *_READ[layout], *more


def _is_repeated(name: str, record: Object, messages: Sequence[Message]) -> bool:
    """True for a text that is in a message, and for Alpaca's prompt, a template with the instruction and the input."""
    value = record[name]
    if not isinstance(value, str):
        return False
    parts = [record.get(key) or "" for key in ("instruction", "input")] if name == "prompt" else [""]
    filled = any(parts) and all(isinstance(part, str) and part in value for part in parts)
    return filled or any(value.strip() in each.content for each in messages)


def unread(layout: Layout, record: Object) -> frozenset[str]:
    """The fields of a record, and of its messages, that are not read and do not change its meaning."""
    read = {*_read(layout, record), "license", "licence"}
    scores = (Sense.CHOSEN, Sense.REJECTED, Sense.MARGIN, Sense.TIE) if layout is Layout.HH else ()
    used = (Sense.SYSTEM, Sense.TEXT, Sense.BESIDE, *scores)
    found = {field_name(name) for name, value in record.items() if name not in read and not _is_used(name, value, used)}
    for key in ("messages", "conversations", "prompt", "chosen"):
        value = record.get(key) if key in read else None
        used = (Sense.BESIDE, Sense.SCORE) if key == "chosen" else (Sense.BESIDE,)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                names = [name for name in each if name not in _spelling(each)]
                found.update(f"{key}[].{field_name(name)}" for name in names if not _is_used(name, each[name], used))
    return frozenset(found)


def _is_used(name: str, value: object, senses: Sequence[Sense]) -> bool:
    """True for a field of one of these senses, and for a flag that says that a record or message is an example."""
    sense = sense_of(name)
    return sense in senses or (sense in (Sense.GOOD, Sense.TRAINED, Sense.MASKED) and (value is None or is_flag(value)))


def with_system(record: Object, messages: Sequence[Message]) -> list[Message]:
    """The messages after the system message that a field of the record holds, if there is one. Raises Unfit."""
    stated = [
        _string(value, name)
        for name, value in record.items()
        if value not in (None, "") and sense_of(name) is Sense.SYSTEM
    ]
    stated += [each.content for each in messages[:1] if each.role is Role.SYSTEM]
    if len(set(stated)) > 1:
        raise Unfit(Reason.ROLE_ORDER, f"{len(set(stated))} different system messages; expected one")
    rest = messages[1:] if messages and messages[0].role is Role.SYSTEM else messages
    return [*(Message(Role.SYSTEM, text) for text in stated[:1]), *rest]


def _messages(record: Object) -> list[Message]:
    return [_message(each) for each in _list(record, "messages")]


def _prompt(record: Object) -> list[Message]:
    """TRL's prompt and completion are strings or lists of messages."""
    found = asked(record)
    answer = next((key for key in _ANSWERS if record.get(key) is not None), None)
    return found if answer is None else found + turns(record[answer], answer, Role.ASSISTANT)


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
        return asked(record)
    if "instruction" in record:
        return _instruction(record)
    key = next((key for key in ("conversations", "messages") if record.get(key)), "")
    said = [_message(each) for each in _list(record, key)] if key else []
    return said if said and said[-1].role is not Role.ASSISTANT else []


def asked(record: Object) -> list[Message]:
    """The prompt of a record, after the earlier turns of its history. Raises Unfit."""
    return [*_history(record), *_question(record["prompt"])]


def _question(value: object) -> list[Message]:
    """The messages of a prompt: a list, a transcript up to the answer, or a text. Raises Unfit."""
    if isinstance(value, str) and _TURN.match(value.strip()):
        said = transcript(value, "prompt")
        return said[:-1] if said[-1].role is Role.ASSISTANT and not said[-1].content else said
    return turns(value, "prompt", Role.USER)


def transcript(value: object, key: str) -> list[Message]:
    """The messages of a list, or of a text with Human: and Assistant: in turn, as HH has them. Raises Unfit."""
    if isinstance(value, list):
        return [_message(each, _IN_PAIRS) for each in value]
    text = _string(value, key).strip()
    found = list(_TURN.finditer(text))
    if not found or found[0].start() != 0:
        seen = shown(text)
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


def _message(value: object, senses: Sequence[Sense] = _OF_MESSAGES) -> Message:
    """A message, whose fields of these senses must not change its meaning. Raises Unfit."""
    if not isinstance(value, dict):
        raise Unfit(Reason.NOT_AN_OBJECT, f"a message is {kind_of(value)}; expected an object of role and content")
    role, content = _spelling(value)
    named = _text(value, role)
    author = _ROLES.get(named.strip().lower())
    if author is None:
        raise Unfit(Reason.UNKNOWN_ROLE, f"{role} {shown(named)}; expected system, user or assistant")
    require(value, senses if author is Role.ASSISTANT else _IN_PAIRS, " of a message")
    parts = value.get(content)
    text = "".join(_part(each) for each in parts) if isinstance(parts, list) else _text(value, content)
    return Message(author, text, trained=is_trained(value) or author is not Role.ASSISTANT)


def _part(value: object) -> str:
    """A part of a message in OpenAI's layout, which has to be text."""
    if not isinstance(value, dict) or value.get("type") != "text":
        kind = value.get("type") if isinstance(value, dict) else value
        raise Unfit(Reason.NOT_A_STRING, f"a part of a message is {shown(str(kind))}; expected one of type text")
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
        raise Unfit(Reason.NO_MESSAGE, f"{key} is {kind_of(value)}; expected a list of messages")
    return value


def _text(record: Object, key: str) -> str:
    return _string(record.get(key), key)


def _string(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise Unfit(Reason.NOT_A_STRING, f"{key} is {kind_of(value)}; expected a string")
    return value
