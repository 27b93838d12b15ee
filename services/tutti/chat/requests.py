"""Requests of the API as values, read by the table of their fields.

Promises: nothing that changes an answer is ignored in silence; a request for several choices is one request for each,
so that every choice has a record of its own and is computed again alone.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tutti.chassis.errors import InvalidField
from tutti.chat.defaults import API, SAID
from tutti.chat.fields import CHAT, COMPLETIONS, values_of
from tutti.chat.kinds import MOST_PROMPTS, Prompt
from tutti.corpus.conversations.conversations import Message
from tutti.inference.engine import Shaping
from tutti.inference.sampling import Sampling

T = TypeVar("T")
SEEDS, GIVEN = 2**53, "given"
MOST_ANSWERS = MOST_PROMPTS
"""Prompts times choices of a request, at most."""


@dataclass(frozen=True)
class ChatRequest:
    """A request for answers to `messages`, or for texts that continue each of `prompts`, `choices` times each.

    `tokens` is None for the room that is left in the context; `temperature`, `top_p`, `top_k` and `seed` are None if
    the client gave none. A seed outside 0 … 2^53 is hashed; `given_seed` is the one that the client sent.
    `alternatives` are the likeliest tokens that are shown with each; None shows no log-probabilities. With `echo`, the
    prompt is part of the text. The answer begins with the token ids `given`, which no field of the API sets.
    """

    model: str
    messages: tuple[Message, ...]
    stream: bool
    include_usage: bool
    stops: tuple[str, ...]
    temperature: float | None
    top_p: float | None
    top_k: int | None
    seed: int | None
    given_seed: int | None
    tokens: int | None
    shaping: Shaping
    prompts: tuple[Prompt, ...] = ()
    choices: int = 1
    alternatives: int | None = None
    echo: bool = False
    given: tuple[int, ...] = ()

    def sampling(self, seed: int, defaults: Sampling = API) -> Sampling:
        """The sampling with this seed, and these defaults, for a request that names none."""
        return Sampling(
            _or(self.temperature, defaults.temperature),
            _or(self.top_p, defaults.top_p),
            _or(self.top_k, defaults.top_k),
            _or(self.seed, seed),
        )

    def filled(self, defaults: Sampling) -> "ChatRequest":
        """The request that names its sampling, from these defaults where it names none; its seed stays."""
        found = self.sampling(0, defaults)
        return replace(self, temperature=found.temperature, top_p=found.top_p, top_k=found.top_k)

    def singles(self, seed: int) -> list["ChatRequest"]:
        """A request for each choice, those of the first prompt first; `seed` is for a request without one.

        The first choice has the seed of the request, the others have seeds that follow from it and their numbers.
        """
        base, found = _or(self.seed, seed), list[ChatRequest]()
        every: list[tuple[Prompt, ...]] = [(each,) for each in self.prompts] or [()]
        for prompts in every:
            single = replace(self, prompts=prompts, choices=1)
            others = [hashed(f"{base}/{number}") for number in range(1, self.choices)]
            found += [single, *(replace(single, seed=each, given_seed=each) for each in others)]
        return found


def read(body: object) -> ChatRequest:
    """The request in the body of a chat completion. Raises InvalidField."""
    given = values_of(CHAT, body)
    if given["top_logprobs"] and not given["logprobs"]:
        raise InvalidField("top_logprobs", seen=given["top_logprobs"], expected="logprobs: true beside it")
    return _request(
        given,
        messages=given["messages"],
        tokens=given["max_completion_tokens"] or given["max_tokens"],
        alternatives=(given["top_logprobs"] or 0) if given["logprobs"] else None,
    )


def read_completion(body: object) -> ChatRequest:
    """The request in the body of a completion. Raises InvalidField."""
    given = values_of(COMPLETIONS, body)
    if not given["max_tokens"] and not given["echo"]:
        raise InvalidField("max_tokens", seen=0, expected="a whole number from 1 on, or echo")
    if (count := len(given["prompt"]) * given["n"]) > MOST_ANSWERS:
        raise InvalidField("n", seen=count, expected=f"at most {MOST_ANSWERS} choices of all prompts")
    return _request(
        given,
        prompts=given["prompt"],
        tokens=given["max_tokens"],
        alternatives=given["logprobs"],
        echo=given["echo"],
    )


def _request(
    given: Mapping[str, Any],
    *,
    tokens: int | None,
    alternatives: int | None,
    messages: Sequence[Message] = (),
    prompts: Sequence[Prompt] = (),
    echo: bool = False,
) -> ChatRequest:
    """The request with the fields that both APIs have."""
    seed = given["seed"]
    return ChatRequest(
        model=given["model"],
        messages=tuple(messages),
        stream=given["stream"],
        include_usage=given["stream_options"].get("include_usage", False),
        stops=given["stop"],
        temperature=given["temperature"],
        top_p=given["top_p"],
        top_k=given["top_k"],
        seed=seed if seed is None or 0 <= seed < SEEDS else hashed(str(seed)),
        given_seed=seed,
        tokens=tokens,
        shaping=Shaping(given["logit_bias"], given["presence_penalty"], given["frequency_penalty"]),
        prompts=tuple(prompts),
        choices=given["n"],
        alternatives=alternatives,
        echo=echo,
    )


def as_body(request: ChatRequest) -> dict[str, object]:
    """A body that `read_body` reads as this request."""
    shaping = request.shaping
    common: dict[str, object] = {
        **({GIVEN: list(request.given)} if request.given else {}),
        "model": request.model,
        "stream": request.stream,
        "stream_options": {"include_usage": request.include_usage},
        "stop": list(request.stops),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "seed": request.given_seed,
        "max_tokens": request.tokens,
        "logit_bias": {str(token): value for token, value in shaping.bias},
        "presence_penalty": shaping.presence,
        "frequency_penalty": shaping.frequency,
        "n": request.choices,
    }
    if request.prompts:
        prompts = [each if isinstance(each, str) else list(each) for each in request.prompts]
        return {**common, "prompt": prompts, "logprobs": request.alternatives, "echo": request.echo}
    messages = [{"role": str(each.role), "content": each.content} for each in request.messages]
    logprobs = request.alternatives is not None
    return {**common, "messages": messages, "logprobs": logprobs, "top_logprobs": request.alternatives}


def read_body(body: Mapping[str, Any]) -> ChatRequest:
    """The request in a body of either API, as `as_body` returns it. Raises InvalidField.

    A model can have a default sampling that no request may ask for, such as a temperature above 2.
    """
    drawn = {"top_k": API.top_k, **{key: body[key] for key in SAID if key in body}}  # a body of 0.3 has no top_k
    api = {key: value for key, value in body.items() if key not in (GIVEN, *drawn)}
    request = read_completion(api) if "prompt" in api else read(api)
    return replace(request, given=tuple(body.get(GIVEN, ())), **drawn)


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def hashed(seed: str) -> int:
    """The seed below 2^53 that follows from the digits of one that is not, or from a seed and a number."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]) % SEEDS
