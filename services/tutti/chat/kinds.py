"""Kinds of values in the body of a request: how each is read from JSON, and its schema. Pure.

Promises: a value of another type, or outside its bounds, is refused by the name of its field.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tutti.chassis.errors import InvalidField
from tutti.corpus.conversations.conversations import Message, Role

MOST_MESSAGES, MOST_PROMPTS, MOST_IDS = 1000, 128, 1 << 20
MOST_STOPS = 16
"""OpenAI's API takes 4, but lm-eval adds the token that ends a text to the stop strings of a task."""
MOST_STOP = 256
"""Characters of a stop string, at most."""
IDS = 2**32
TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")
ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
Prompt: TypeAlias = str | tuple[int, ...]
"""A text, or token ids."""
Schema: TypeAlias = Mapping[str, Any]


class Kind(Protocol):
    """`default` is the value of a field that is not there."""

    @property
    def default(self) -> Any: ...

    @property
    def schema(self) -> Schema:
        """The JSON schema."""

    def read(self, name: str, value: object) -> Any:
        """The value of a field. Raises InvalidField."""


@dataclass(frozen=True)
class Anything:
    """A value that is not used."""

    default: None = None

    @property
    def schema(self) -> Schema:
        return {}

    def read(self, name: str, value: object) -> object:
        return value


@dataclass(frozen=True)
class Text:
    """A text that is not empty."""

    default: str = ""

    @property
    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}

    def read(self, name: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise InvalidField(name, seen=value, expected="a text")
        return value


@dataclass(frozen=True)
class AnyText:
    """A text, which may be empty."""

    default: None = None

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, name: str, value: object) -> str:
        if not isinstance(value, str) or not is_utf8(value):
            raise InvalidField(name, seen=value, expected="a text")
        return value


@dataclass(frozen=True)
class Tokens:
    """Token ids, or none."""

    default: tuple[int, ...] = ()

    @property
    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": MOST_IDS}

    def read(self, name: str, value: object) -> tuple[int, ...]:
        if value == []:
            return ()
        if not isinstance(value, list):
            raise InvalidField(name, seen=value, expected="a list of token ids")
        ids = _prompt(name, value)
        assert not isinstance(ids, str)
        return ids


@dataclass(frozen=True)
class Flag:
    default: bool = False

    @property
    def schema(self) -> Schema:
        return {"type": "boolean"}

    def read(self, name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidField(name, seen=value, expected="true or false")
        return value


@dataclass(frozen=True)
class Number:
    """A number from `least`, or above it with `above`, to `most`."""

    least: float
    most: float
    default: float | None = None
    above: bool = False

    @property
    def schema(self) -> Schema:
        return {"type": "number", "exclusiveMinimum" if self.above else "minimum": self.least, "maximum": self.most}

    def read(self, name: str, value: object) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not self.least <= value <= self.most or (self.above and value == self.least):  # type: ignore[operator]
            least = f"above {self.least:g}" if self.above else f"from {self.least:g}"
            raise InvalidField(name, seen=value, expected=f"a number {least} to {self.most:g}")
        return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int
    most: int
    default: int | None = None

    @property
    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def read(self, name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise InvalidField(name, seen=value, expected=f"a whole number from {self.least} to {self.most}")
        return value


@dataclass(frozen=True)
class Options:
    """An object of flags by these names."""

    names: tuple[str, ...]

    @property
    def default(self) -> Mapping[str, bool]:
        return {}

    @property
    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in self.names},
            "additionalProperties": False,
        }

    def read(self, name: str, value: object) -> Mapping[str, bool]:
        if not isinstance(value, Mapping) or value.keys() - set(self.names):
            raise InvalidField(name, seen=value, expected=f"an object with {' or '.join(self.names)}")
        return {each: Flag().read(each, held) for each, held in value.items() if held is not None}


@dataclass(frozen=True)
class Stops:
    """A stop string, or a list of some."""

    default: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        text = {"type": "string", "minLength": 1, "maxLength": MOST_STOP}
        return {"anyOf": [text, {"type": "array", "items": text, "maxItems": MOST_STOPS}]}

    def read(self, name: str, value: object) -> tuple[str, ...]:
        every = [value] if isinstance(value, str) else value
        if not isinstance(every, list) or len(every) > MOST_STOPS:
            raise InvalidField(name, seen=value, expected=f"a text or a list of at most {MOST_STOPS}")
        for each in every:
            if not isinstance(each, str) or not 0 < len(each) <= MOST_STOP or not is_utf8(each):
                raise InvalidField(name, seen=each, expected=f"texts of 1 to {MOST_STOP} characters")
        return tuple(every)


@dataclass(frozen=True)
class Biases:
    """Numbers by token id, as pairs in the order of the ids."""

    default: tuple[tuple[int, float], ...] = ()

    @property
    def schema(self) -> Schema:
        number = {"type": "number", "minimum": -100, "maximum": 100}
        return {
            "type": "object",
            "patternProperties": {f"^({TOKEN_ID.pattern})$": number},
            "additionalProperties": False,
        }

    def read(self, name: str, value: object) -> tuple[tuple[int, float], ...]:
        if not isinstance(value, Mapping):
            raise InvalidField(name, seen=value, expected="an object of numbers by token id")
        found: dict[int, float] = {}
        for token, bias in value.items():
            number = isinstance(bias, int | float) and not isinstance(bias, bool)
            known = TOKEN_ID.fullmatch(token) and int(token) < IDS
            if not known or not number or not -100 <= bias <= 100:
                raise InvalidField(name, seen={token: bias}, expected="numbers from -100 to 100 by token id")
            found[int(token)] = float(bias)
        return tuple(sorted(found.items()))


@dataclass(frozen=True)
class Messages:
    """A conversation whose last message is not the assistant's."""

    default: tuple[Message, ...] = ()

    @property
    def schema(self) -> Schema:
        part = {
            "type": "object",
            "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
            "required": ["type", "text"],
        }
        content = {"anyOf": [{"type": "string"}, {"type": "array", "items": part, "minItems": 1}]}
        message = {
            "type": "object",
            "properties": {"role": {"enum": [*ROLES]}, "content": content, "name": {"type": "string"}},
            "required": ["role", "content"],
        }
        return {"type": "array", "items": message, "minItems": 1, "maxItems": MOST_MESSAGES}

    def read(self, name: str, value: object) -> tuple[Message, ...]:
        if not isinstance(value, list) or not 0 < len(value) <= MOST_MESSAGES:
            raise InvalidField(name, seen=value, expected=f"a list of 1 to {MOST_MESSAGES} messages")
        messages = tuple(_message(f"{name}[{number}]", each) for number, each in enumerate(value))
        if messages[-1].role is Role.ASSISTANT:
            raise InvalidField(name, seen="a last message of the assistant", expected="one of the user")
        return messages


@dataclass(frozen=True)
class Prompts:
    """Texts or token ids that are continued: one, or a list of several."""

    default: tuple[Prompt, ...] = ()

    @property
    def schema(self) -> Schema:
        text = {"type": "string"}
        ids = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
        several = {"type": "array", "items": {"anyOf": [text, ids]}, "minItems": 1, "maxItems": MOST_PROMPTS}
        return {"anyOf": [text, ids, several]}

    def read(self, name: str, value: object) -> tuple[Prompt, ...]:
        if isinstance(value, str):
            return (_prompt(name, value),)
        if not isinstance(value, list) or not value:
            raise InvalidField(name, seen=value, expected="a text, token ids, or a list of those")
        if isinstance(value[0], int):
            return (_prompt(name, value),)
        if len(value) > MOST_PROMPTS:
            raise InvalidField(name, seen=f"{len(value)} prompts", expected=f"at most {MOST_PROMPTS}")
        return tuple(_prompt(f"{name}[{number}]", each) for number, each in enumerate(value))


def is_utf8(text: str) -> bool:
    """False for a text with half a surrogate pair, which JSON can have."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _prompt(place: str, value: object) -> Prompt:
    if isinstance(value, str):
        if not is_utf8(value):
            raise InvalidField(place, seen=value, expected="whole characters")
        return value
    if not isinstance(value, list) or not 0 < len(value) <= MOST_IDS:
        raise InvalidField(place, seen=value, expected=f"a text, or 1 to {MOST_IDS} token ids")
    for each in value:
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < IDS:
            raise InvalidField(place, seen=each, expected="token ids, whole numbers from 0 on")
    return tuple(value)


def _message(place: str, value: object) -> Message:
    if not isinstance(value, Mapping):
        raise InvalidField(place, seen=value, expected="an object with role and content")
    for name, held in value.items():
        if name not in ("role", "content", "name") and held not in (None, []):
            raise InvalidField(f"{place}.{name}", seen=held, expected="only role and content")
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidField(f"{place}.role", seen=role, expected=" or ".join(ROLES))
    return Message(ROLES[role], _content(f"{place}.content", value.get("content")))


def _content(place: str, value: object) -> str:
    parts: Sequence[object] = [{"type": "text", "text": value}] if isinstance(value, str) else value  # type: ignore[assignment]
    if not isinstance(parts, list) or not parts:
        raise InvalidField(place, seen=value, expected="a text or a list of text parts")
    texts = []
    for number, part in enumerate(parts):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str) or not is_utf8(text):
            raise InvalidField(f"{place}[{number}]", seen=part, expected="a part of the type text")
        texts.append(text)
    return "".join(texts)
