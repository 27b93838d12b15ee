"""Requests of OpenAI's chat completions: one table says of every field what is done with it.

Promises: an unknown field, and a field that asks for something that is not done here, are refused by name; nothing that
changes an answer is ignored in silence.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tutti.chassis.errors import InvalidField
from tutti.corpus.conversations.conversations import Message, Role
from tutti.inference.engine import Shaping
from tutti.inference.sampling import Sampling

MOST_MESSAGES = 1000
MOST_STOPS = 4
MOST_STOP = 256
"""Characters of a stop string, at most."""
SEEDS = 2**53
TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")
ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}


class Use(Enum):
    USED = "used"
    IGNORED = "ignored"
    """It does not change an answer."""
    REFUSED = "refused"
    """Refused, unless it asks for the default."""


@dataclass(frozen=True)
class Field:
    """`neutral`: the values of a refused field that ask for nothing else."""

    use: Use
    about: str
    neutral: tuple[object, ...] = ()


FIELDS: Mapping[str, Field] = {
    "model": Field(Use.USED, "the deployment that answers"),
    "messages": Field(Use.USED, "texts, or lists of text parts, of system, developer, user and assistant"),
    "stream": Field(Use.USED, "server-sent events instead of one body"),
    "stream_options": Field(Use.USED, "include_usage: a last event with the usage"),
    "stop": Field(Use.USED, f"a text or at most {MOST_STOPS}"),
    "seed": Field(Use.USED, "a whole number; without one, a random seed is chosen and recorded"),
    "temperature": Field(Use.USED, "0 to 2"),
    "top_p": Field(Use.USED, "above 0, up to 1"),
    "max_tokens": Field(Use.USED, "tokens of the answer, at most"),
    "max_completion_tokens": Field(Use.USED, "the same by its newer name"),
    "presence_penalty": Field(Use.USED, "-2 to 2"),
    "frequency_penalty": Field(Use.USED, "-2 to 2"),
    "logit_bias": Field(Use.USED, "-100 to 100, by token id"),
    "n": Field(Use.REFUSED, "only one answer", (1,)),
    "logprobs": Field(Use.REFUSED, "log-probabilities are not sent", (False,)),
    "top_logprobs": Field(Use.REFUSED, "log-probabilities are not sent", (0,)),
    "tools": Field(Use.REFUSED, "no tools", ([],)),
    "tool_choice": Field(Use.REFUSED, "no tools", ("none", "auto")),
    "functions": Field(Use.REFUSED, "no functions", ([],)),
    "function_call": Field(Use.REFUSED, "no functions", ("none", "auto")),
    "response_format": Field(Use.REFUSED, "only text", ({"type": "text"},)),
    "modalities": Field(Use.REFUSED, "only text", (["text"],)),
    "audio": Field(Use.REFUSED, "only text"),
    "prediction": Field(Use.REFUSED, "no predictions"),
    "web_search_options": Field(Use.REFUSED, "no search"),
    "user": Field(Use.IGNORED, "a name for the client's own use"),
    "metadata": Field(Use.IGNORED, "for the client's own use"),
    "store": Field(Use.IGNORED, "every answer is recorded without its text"),
    "service_tier": Field(Use.IGNORED, "there is one tier"),
    "reasoning_effort": Field(Use.IGNORED, "models do not reason apart"),
    "verbosity": Field(Use.IGNORED, "models have no such switch"),
    "parallel_tool_calls": Field(Use.IGNORED, "no tools"),
    "prompt_cache_key": Field(Use.IGNORED, "prompts are shared within a tenant"),
    "safety_identifier": Field(Use.IGNORED, "a name for the client's own use"),
}


@dataclass(frozen=True)
class ChatRequest:
    """`tokens` is 0 for the room that is left in the context; `seed` is None if the client gave none.

    A seed outside 0 … 2^53 is hashed; `given_seed` is the one that the client sent.
    """

    model: str
    messages: tuple[Message, ...]
    stream: bool
    include_usage: bool
    stops: tuple[str, ...]
    temperature: float
    top_p: float
    seed: int | None
    given_seed: int | None
    tokens: int
    shaping: Shaping

    def sampling(self, seed: int) -> Sampling:
        """The sampling with this seed, for a request without one."""
        return Sampling(self.temperature, self.top_p, seed=seed if self.seed is None else self.seed)


def read(body: object) -> ChatRequest:
    """The request in the JSON of a body. Raises InvalidField."""
    if not isinstance(body, Mapping):
        raise InvalidField("body", seen=body, expected="an object")
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        _check(name, value)
    options = given.get("stream_options", {})
    if not isinstance(options, Mapping) or options.keys() - {"include_usage", "include_obfuscation"}:
        raise InvalidField("stream_options", seen=options, expected="an object with include_usage")
    seed = _whole(given, "seed", -(2**63), 2**63 - 1)
    tokens = [_whole(given, name, 1, 2**31) for name in ("max_completion_tokens", "max_tokens")]
    return ChatRequest(
        model=_text(given, "model"),
        messages=_messages(given.get("messages")),
        stream=_flag(given, "stream"),
        include_usage=_flag(options, "include_usage"),
        stops=_stops(given.get("stop", [])),
        temperature=_number(given, "temperature", 0, 2, 1.0),
        top_p=_above_zero(_number(given, "top_p", 0, 1, 1.0)),
        seed=seed if seed is None or 0 <= seed < SEEDS else hashed(seed),
        given_seed=seed,
        tokens=tokens[0] or tokens[1] or 0,
        shaping=Shaping(
            _bias(given.get("logit_bias", {})),
            _number(given, "presence_penalty", -2, 2, 0.0),
            _number(given, "frequency_penalty", -2, 2, 0.0),
        ),
    )


def as_body(request: ChatRequest) -> dict[str, object]:
    """A body that is read as this request."""
    shaping = request.shaping
    return {
        "model": request.model,
        "messages": [{"role": str(each.role), "content": each.content} for each in request.messages],
        "stream": request.stream,
        "stream_options": {"include_usage": request.include_usage},
        "stop": list(request.stops),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.given_seed,
        "max_tokens": request.tokens or None,
        "logit_bias": {str(token): value for token, value in shaping.bias},
        "presence_penalty": shaping.presence,
        "frequency_penalty": shaping.frequency,
    }


def hashed(seed: int) -> int:
    """The seed below 2^53 for one that is not."""
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8]) % SEEDS


def _check(name: str, value: object) -> None:
    field = FIELDS.get(name)
    if field is None:
        raise InvalidField(name[:100] or "body", seen=value, expected="no such field, which is not one of this API")
    if field.use is Use.REFUSED and not any(type(value) is type(each) and value == each for each in field.neutral):
        raise InvalidField(name, seen=value, expected=f"{_or(field.neutral)}: {field.about} is possible here")


def _or(values: Sequence[object]) -> str:
    return "".join(f"{each!r} or " for each in values) + "nothing"


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidField(name, seen=value, expected="a text")
    return value


def _flag(given: Mapping[str, object], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise InvalidField(name, seen=value, expected="true or false")
    return value


def _number(given: Mapping[str, object], name: str, least: float, most: float, default: float) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidField(name, seen=value, expected=f"a number from {least} to {most}")
    return float(value)


def _above_zero(value: float) -> float:
    if not value:
        raise InvalidField("top_p", seen=value, expected="a number above 0, up to 1")
    return value


def _whole(given: Mapping[str, object], name: str, least: int, most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidField(name, seen=value, expected=f"a whole number from {least} to {most}")
    return value


def _stops(value: object) -> tuple[str, ...]:
    every = [value] if isinstance(value, str) else value
    if not isinstance(every, list) or len(every) > MOST_STOPS:
        raise InvalidField("stop", seen=value, expected=f"a text or a list of at most {MOST_STOPS}")
    for each in every:
        if not isinstance(each, str) or not 0 < len(each) <= MOST_STOP or not is_utf8(each):
            raise InvalidField("stop", seen=each, expected=f"texts of 1 to {MOST_STOP} characters")
    return tuple(every)


def _bias(value: object) -> tuple[tuple[int, float], ...]:
    if not isinstance(value, Mapping):
        raise InvalidField("logit_bias", seen=value, expected="an object of numbers by token id")
    found: dict[int, float] = {}
    for token, bias in value.items():
        number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not TOKEN_ID.fullmatch(token) or not number or not math.fabs(bias) <= 100:
            raise InvalidField("logit_bias", seen={token: bias}, expected="numbers from -100 to 100 by token id")
        found[int(token)] = float(bias)
    return tuple(sorted(found.items()))


def _messages(value: object) -> tuple[Message, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MESSAGES:
        raise InvalidField("messages", seen=value, expected=f"a list of 1 to {MOST_MESSAGES} messages")
    messages = tuple(_message(f"messages[{number}]", each) for number, each in enumerate(value))
    if messages[-1].role is Role.ASSISTANT:
        raise InvalidField("messages", seen="a last message of the assistant", expected="one of the user")
    return messages


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
    parts = [{"type": "text", "text": value}] if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts:
        raise InvalidField(place, seen=value, expected="a text or a list of text parts")
    texts = []
    for number, part in enumerate(parts):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str) or not is_utf8(text):
            raise InvalidField(f"{place}[{number}]", seen=part, expected="a part of the type text")
        texts.append(text)
    return "".join(texts)


def is_utf8(text: str) -> bool:
    """False for a text with half a surrogate pair, which JSON can have."""
    return not any("\ud800" <= each <= "\udfff" for each in text)
