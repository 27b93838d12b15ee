"""Conversations as JSON lines: prompts, demonstrations, answers of models, and preferences between two answers.

Promises: a record has one spelling, canonical JSON (RFC 8785), so equal records have equal bytes; whatever is read is
checked, and an error names the line and the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self, TypeVar

from tutti.records.canonical import JsonValue, canonical_json, content_digest, parse_json
from tutti.records.errors import CorpusError, NotCanonical
from tutti.records.fields import Fields

HALF = re.compile("[\ud800-\udfff]")


class InvalidConversation(CorpusError):
    """A line is not a record of the expected kind."""


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. An answer that is not `trained` is context of later ones, and no example."""

    role: Role
    content: str
    trained: bool = True

    def to_json(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {"role": str(self.role), "content": self.content}
        return found if self.trained else {**found, "weight": 0}


Messages = tuple[Message, ...]


class Record(Protocol):
    """One line of a file."""

    def to_json(self) -> dict[str, JsonValue]: ...

    @classmethod
    def read(cls, fields: Fields) -> Self: ...


R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt if its last message is the user's, a demonstration if it is the assistant's.

    `part` is the part of a split that it belongs to, such as `train`; empty where there is no split.
    """

    messages: Messages
    part: str = ""

    @property
    def digest(self) -> str:
        """The identity of its messages, `blake3:<hex>`; the part does not change it."""
        return prompt_digest(self.messages)

    @property
    def answer(self) -> str | None:
        """The last message of the assistant; None for a prompt."""
        return self.messages[-1].content if self.messages[-1].role is Role.ASSISTANT else None

    @property
    def prompt(self) -> Messages:
        """The messages before the last answer: all of a prompt, none of an answer that stands alone."""
        return self.messages if self.answer is None else self.messages[:-1]

    def to_json(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {"messages": [each.to_json() for each in self.messages]}
        return {**found, "part": self.part} if self.part else found

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(messages_of(fields, "messages"), fields.text("part", missing=""))


END = "end"
"""The stop of an answer that its writer ended; every other one is cut."""
STOPS = (END, "tokens", "context")
ENDED = (END, END)
"""The stops of two answers that were not cut."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to a prompt.

    `number` is the global number of the draw, which follows from the prompt's place and the sample's. `tokens` are the
    ids of the answer without the one that ends it; `stop` is why it ended: end, tokens or context.
    """

    prompt: Messages
    number: int
    text: str
    tokens: tuple[int, ...]
    stop: str

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "prompt": [each.to_json() for each in self.prompt],
            "number": self.number,
            "text": self.text,
            "tokens": list(self.tokens),
            "stop": self.stop,
        }

    @classmethod
    def read(cls, fields: Fields) -> Self:
        stop = fields.text("stop")
        if stop not in STOPS:
            raise InvalidConversation(f"stop: {stop!r}; expected one of {', '.join(STOPS)}")
        return cls(
            messages_of(fields, "prompt"),
            fields.count("number"),
            fields.text("text"),
            tuple(fields.counts("tokens")),
            stop,
        )


@dataclass(frozen=True, slots=True)
class Preference:
    """Two answers to a prompt, the probability that the first is the better one, and how much the pair counts.

    `first` is a posterior probability, 0 … 1: .5 for a tie. `weight` is above 0, 1 for an ordinary pair. `judged` is
    the share of the judgements that preferred the first answer, a tie counted half; None where it is not known. `stops`
    says why each answer ended.
    """

    prompt: Messages
    answers: tuple[str, str]
    first: float
    weight: float = 1.0
    judged: float | None = None
    stops: tuple[str, str] = ENDED

    def to_json(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {
            "prompt": [each.to_json() for each in self.prompt],
            "answers": list(self.answers),
            "first": self.first,
            "weight": self.weight,
            **stops_to_json(self.stops),
        }
        return found if self.judged is None else {**found, "judged": self.judged}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        answers, first, weight = fields.texts("answers"), fields.number("first"), fields.number("weight")
        if len(answers) != 2:
            raise InvalidConversation(f"answers: {len(answers)} of them; expected 2")
        if not 0 <= first <= 1:
            raise InvalidConversation(f"first: {first:g}; expected a probability, 0 … 1")
        if not 0 < weight < float("inf"):
            raise InvalidConversation(f"weight: {weight:g}; expected a positive number")
        judged = fields.number("judged") if fields.has("judged") else None
        if judged is not None and not 0 <= judged <= 1:
            raise InvalidConversation(f"judged: {judged:g}; expected a share, 0 … 1")
        prompt, stops = messages_of(fields, "prompt"), stops_of(fields)
        return cls(prompt, (answers[0], answers[1]), first, weight, judged, stops)


def stops_to_json(stops: tuple[str, str]) -> dict[str, JsonValue]:
    """Return the field of two answers' stops; none if both were ended."""
    return {} if stops == ENDED else {"stops": list(stops)}


def stops_of(fields: Fields) -> tuple[str, str]:
    """Return the stops of two answers. Raises InvalidConversation."""
    found = fields.texts("stops") if fields.has("stops") else ENDED
    if len(found) != 2 or not set(found) <= set(STOPS):
        raise InvalidConversation(f"stops: {', '.join(found)[:60]}; expected two of {', '.join(STOPS)}")
    return found[0], found[1]


def as_lines(messages: Sequence[Message]) -> str:
    """Return a text to show, a line for the role and content of each message."""
    return "\n".join(f"{each.role}: {each.content}" for each in messages)


def prompt_digest(messages: Sequence[Message]) -> str:
    """The identity of a conversation, `blake3:<hex>`."""
    return content_digest({"messages": [each.to_json() for each in messages]}, kind="conversation")


def to_lines(records: Iterable[Record]) -> bytes:
    """The records as JSON lines, each with its newline."""
    return b"".join(canonical_json(each.to_json()) + b"\n" for each in records)


def from_lines(kind: type[R], data: bytes) -> Iterator[R]:
    """The records of JSON lines. Raises InvalidConversation, which names the line."""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            yield kind.read(Fields(_parsed(line), path=f"line {number}", error=InvalidConversation))
        except NotCanonical as error:
            raise InvalidConversation(f"line {number}: {error}") from error
        except InvalidConversation as error:
            words = str(error)
            raise InvalidConversation(words if words.startswith("line ") else f"line {number}: {words}") from error


def _parsed(line: bytes) -> JsonValue:
    """Raises NotCanonical, InvalidConversation."""
    if not line.strip():
        raise InvalidConversation("it is empty; expected a JSON object")
    found = parse_json(line)
    if b"\\u" in line and (half := HALF.search(json.dumps(found, ensure_ascii=False))):
        raise InvalidConversation(f"a text has half of a surrogate pair, \\u{ord(half[0]):04x}, which is no character")
    return found


def messages_of(fields: Fields, key: str) -> Messages:
    """Return the messages of a field, at least one. Raises InvalidConversation."""
    found = []
    for each in fields.objects(key):
        role = each.text("role")
        if role not in set(Role):
            raise InvalidConversation(f"{key}: role {role!r}; expected one of {', '.join(Role)}")
        trained = not each.has("weight") or each.number("weight") != 0
        found.append(Message(Role(role), each.text("content"), trained))
    if not found:
        raise InvalidConversation(f"{key}: no message; expected at least one")
    return tuple(found)
