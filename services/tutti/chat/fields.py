"""The fields of the API: one table says how every field is treated.

Promises: requests are read by this table, and `/openapi.json` and the table of docs/serving.md are made of it; an
unknown field, and a field that asks for something that is not done here, are refused by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tutti.chassis.errors import InvalidField
from tutti.chat.kinds import (
    MOST_STOPS,
    AnyText,
    Anything,
    Biases,
    Flag,
    Kind,
    Messages,
    Number,
    Options,
    Prompts,
    Stops,
    Text,
    Tokens,
    Whole,
)

MOST_CHOICES, MOST_ALTERNATIVES = 16, 20
MOST_TOKENS = 2**31
TEXT_TOKENS = 16
"""Tokens of a completion whose request has no max_tokens, as OpenAI's API has it."""

ANYTHING = Anything()


class Use(Enum):
    USED = "used"
    IGNORED = "ignored"
    """It does not change an answer."""
    REFUSED = "refused"
    """Refused, unless it asks for the default."""


@dataclass(frozen=True)
class Field:
    """`neutral`: the values of a refused field that ask for nothing else; `required`: a request must have it."""

    use: Use
    about: str
    kind: Kind = ANYTHING
    neutral: tuple[object, ...] = ()
    required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the field; null is read as a field that is not there."""
        if self.use is Use.REFUSED:
            return {"enum": [None, *self.neutral], "description": f"Refused, unless it is neutral: {self.about}."}
        about = {"description": f"{'Ignored: ' if self.use is Use.IGNORED else ''}{self.about}."}
        held = self.kind.schema
        if self.required or not held:
            return {**held, **about}
        return {"anyOf": [held, {"type": "null"}], **about}


def _used(about: str, kind: Kind, *, required: bool = False) -> Field:
    return Field(Use.USED, about, kind, required=required)


def _ignored(about: str) -> Field:
    return Field(Use.IGNORED, about)


def _refused(about: str, *neutral: object) -> Field:
    return Field(Use.REFUSED, about, neutral=neutral)


_MODEL = _used("the deployment that answers, by its name or that of its checkpoint", Text(), required=True)
_DEFAULT = "without it, that of the model, as `/v1/models` has it"
_BOTH: Mapping[str, Field] = {
    "model": _MODEL,
    "n": _used("choices, each drawn apart; they count as one request", Whole(1, MOST_CHOICES, 1)),
    "stream": _used("server-sent events instead of one body", Flag()),
    "stream_options": _used(
        "include_usage: a last event with the usage", Options(("include_usage", "include_obfuscation"))
    ),
    "stop": _used(f"a text or at most {MOST_STOPS}", Stops()),
    "seed": _used("a whole number; without one, a random seed is chosen and recorded", Whole(-(2**63), 2**63 - 1)),
    "temperature": _used(f"0 to 2; {_DEFAULT}", Number(0, 2)),
    "top_p": _used(f"above 0, up to 1; {_DEFAULT}", Number(0, 1, above=True)),
    "top_k": _used(f"likeliest tokens to draw from, 0 for all; {_DEFAULT}", Whole(0, MOST_TOKENS)),
    "presence_penalty": _used("-2 to 2", Number(-2, 2, 0.0)),
    "frequency_penalty": _used("-2 to 2", Number(-2, 2, 0.0)),
    "logit_bias": _used("-100 to 100, by token id", Biases()),
    "user": _ignored("a name for the client's own use"),
    "metadata": _ignored("for the client's own use"),
}
CHAT: Mapping[str, Field] = {
    **_BOTH,
    "messages": _used(
        "texts, or lists of text parts, of system, developer, user and assistant", Messages(), required=True
    ),
    "max_tokens": _used(
        "tokens of each choice, at most; the room in the context is the default, and bounds it", Whole(1, MOST_TOKENS)
    ),
    "max_completion_tokens": _used("the same by its newer name", Whole(1, MOST_TOKENS)),
    "logprobs": _used("log-probabilities of the model for each token that is shown", Flag()),
    "top_logprobs": _used("with so many likeliest tokens each; needs logprobs", Whole(0, MOST_ALTERNATIVES)),
    "tools": _refused("no tools", []),
    "tool_choice": _refused("no tools", "none", "auto"),
    "functions": _refused("no functions", []),
    "function_call": _refused("no functions", "none", "auto"),
    "response_format": _refused("only text", {"type": "text"}),
    "modalities": _refused("only text", ["text"]),
    "audio": _refused("only text"),
    "prediction": _refused("no predictions"),
    "web_search_options": _refused("no search"),
    "store": _ignored("every answer is recorded without its text"),
    "service_tier": _ignored("there is one tier"),
    "reasoning_effort": _ignored("models do not reason apart"),
    "verbosity": _ignored("models have no such switch"),
    "parallel_tool_calls": _ignored("no tools"),
    "prompt_cache_key": _ignored("prompts are shared within a tenant"),
    "prompt_cache_retention": _ignored("prompts are shared within a tenant"),
    "safety_identifier": _ignored("a name for the client's own use"),
}
COMPLETIONS: Mapping[str, Field] = {
    **_BOTH,
    "prompt": _used("a text or token ids that are continued, or a list of those", Prompts(), required=True),
    "max_tokens": _used(
        f"tokens of each choice, at most; {TEXT_TOKENS} without it; 0 only with echo",
        Whole(0, MOST_TOKENS, TEXT_TOKENS),
    ),
    "echo": _used("the prompt before each choice, judged by the filter as output", Flag()),
    "logprobs": _used(
        "log-probabilities of the model, with so many likeliest tokens each; with echo, those of the prompt too",
        Whole(0, MOST_ALTERNATIVES),
    ),
    "suffix": _refused("no text can be inserted before another", ""),
    "best_of": _refused("every choice is returned; ask for n", 1),
}
_ANY_MODEL = replace(_MODEL, about="the deployment; not needed where all that serve have one tokenizer", required=False)
TOKENIZE: Mapping[str, Field] = {
    "model": _ANY_MODEL,
    "prompt": _used("a text; the name of the token that ends or begins a text is that token", AnyText()),
    "messages": replace(CHAT["messages"], about="a conversation, as it is put before an answer", required=False),
    "add_special_tokens": _used("with the ids that the tokenizer puts before a text", Flag(True)),
    "return_token_strs": _used("with the text of each token", Flag()),
    "add_generation_prompt": _refused("a conversation is put before an answer", True),
    "continue_final_message": _refused("an answer begins anew", False),
}
DETOKENIZE: Mapping[str, Field] = {
    "model": _ANY_MODEL,
    "tokens": _used("token ids", Tokens(), required=True),
}
APIS: Mapping[str, Mapping[str, Field]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETIONS,
    "/tokenize": TOKENIZE,
    "/detokenize": DETOKENIZE,
}


def values_of(fields: Mapping[str, Field], body: object) -> dict[str, Any]:
    """The values of the used fields of a body, or their defaults. Raises InvalidField."""
    if not isinstance(body, Mapping):
        raise InvalidField("body", seen=body, expected="an object")
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        _check(fields, name, value)
    used = {name: each for name, each in fields.items() if each.use is Use.USED}
    for name, each in used.items():
        if each.required and name not in given:
            raise InvalidField(name, seen=None, expected=each.about)
    return {
        name: each.kind.read(name, given[name]) if name in given else each.kind.default for name, each in used.items()
    }


def _check(fields: Mapping[str, Field], name: str, value: object) -> None:
    field = fields.get(name)
    if field is None:
        shown = name[:100].encode(errors="backslashreplace").decode()
        raise InvalidField(shown or "body", seen=value, expected="no such field, which is not one of this API")
    if field.use is Use.REFUSED and not any(type(value) is type(each) and value == each for each in field.neutral):
        raise InvalidField(name, seen=value, expected=f"{_or(field.neutral)}: {field.about}")


def _or(values: Sequence[object]) -> str:
    return "".join(f"{each!r} or " for each in values) + "nothing"
