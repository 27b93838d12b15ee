"""The port of an engine: it generates tokens, scores texts, and changes its weights between the two.

Promises: a completion follows from the weights, its prompt, its number, the sampling and the limits, whatever else is
generated beside it. An engine over another program promises this up to the rounding of that program. An engine that is
started in exact mode gives log-probabilities with the bits of training's forward. Does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from tutti.inference.errors import InferenceError, InvalidSampling
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling
from tutti.native.arrays import np, npt


class Mode(StrEnum):
    """The bits that an engine computes."""

    FAST = "fast"
    """Those of the fastest kernels."""
    EXACT = "exact"
    """Those of training's forward."""


class NotExact(InferenceError):
    """The engine cannot compute the bits of training's forward on this machine or for this model."""


class EngineBusy(InferenceError):
    """The call needs an engine without sequences in progress."""


class EngineStopped(InferenceError):
    """The engine was stopped, or was not started."""


class EngineFailed(InferenceError):
    """The program behind the engine failed, or did not answer in time."""


class WeightsRefused(InferenceError):
    """The engine cannot take the weights, or has answered with others."""


class RequestRefused(InferenceError):
    """Two requests in progress have one number."""


@dataclass(frozen=True)
class Request:
    """A prompt, and the global number that its draws are keyed by. An empty prompt begins as a new text does."""

    number: int
    prompt: tuple[int, ...]


@dataclass(frozen=True)
class Shaping:
    """Changes of the logits that a token is drawn from; log-probabilities stay those of the policy.

    `bias` is added to the logits of ids; from those of each token of the completion, `presence` is subtracted once and
    `frequency` as often as it is there (the penalties of OpenAI's API; those of a prompt's tokens are not counted).
    """

    bias: tuple[tuple[int, float], ...] = ()
    presence: float = 0.0
    frequency: float = 0.0

    def __post_init__(self) -> None:
        """Raises InvalidSampling."""
        for field, value in (("presence", self.presence), ("frequency", self.frequency), *self._biases()):
            if not math.isfinite(value):
                raise InvalidSampling(field, seen=value, expected="a finite number")

    def __bool__(self) -> bool:
        return bool(self.bias or self.presence or self.frequency)

    def shape(self, logits: npt.NDArray[np.float32], tokens: npt.NDArray[np.int64]) -> None:
        """Change the logits [vocabulary] in place; `tokens` are those of the completion."""
        if self.presence or self.frequency:
            seen, counts = np.unique(tokens[tokens < len(logits)], return_counts=True)
            logits[seen] -= (self.presence + self.frequency * counts).astype(np.float32)
        for token, value in self.bias:
            if token < len(logits):
                logits[token] += np.float32(value)

    def _biases(self) -> list[tuple[str, float]]:
        return [(f"bias of {token}", value) for token, value in self.bias]


@dataclass(frozen=True)
class Join:
    """A request that joins those in progress between two steps; `id` names it, `number` keys its draws.

    `given` are tokens that were chosen before, by this engine or an equal one: the completion continues after them. Its
    first tokens are `forced`, whatever the model would choose, so that a text is scored; they neither end it nor count
    for penalties. Two requests share what was read of one prompt only if they have one `salt`. With each token come the
    log-probabilities of the `alternatives` likeliest.
    """

    id: Hashable
    number: int
    prompt: tuple[int, ...]
    sampling: Sampling
    limits: Limits
    shaping: Shaping = Shaping()
    given: tuple[int, ...] = ()
    salt: str = ""
    alternatives: int = 0
    forced: tuple[int, ...] = ()

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """Requests of one kind are drawn from together: all but the draws is equal."""
        drawn = (self.sampling.temperature, self.sampling.top_p, self.sampling.top_k)
        return (*drawn, self.limits.vocabulary, self.limits.never, self.shaping)


@dataclass(frozen=True)
class Chosen:
    """A token of a request: `at` is its place in the completion, `logprob` is in nats at temperature 1.

    `alternatives` are the likeliest ids that can be chosen, with their log-probabilities, the likeliest first.
    """

    id: Hashable
    at: int
    token: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Ended:
    """A request is no longer in progress."""

    id: Hashable
    stop: Stop


@dataclass(frozen=True, eq=False)
class Tokens:
    """A token of each completion that is in progress, with its log-probability at temperature 1, float32.

    `numbers` are those of the requests.
    """

    numbers: tuple[int, ...]
    tokens: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Completion:
    """A whole completion.

    `tokens` has the token that ends the text, where the model chose it. `logprobs` are in nats, float32 [len(tokens)],
    at temperature 1 over the whole vocabulary of the model: the policy's, not those of what top-p or top-k keep.
    """

    number: int
    tokens: tuple[int, ...]
    logprobs: npt.NDArray[np.float32]
    stop: Stop


@dataclass(frozen=True, eq=False)
class Weights:
    """Parameters by their digest: the state vector, float32 [layout.elements], on the device to compute on.

    Equal digests mean equal parameters.
    """

    digest: str
    vector: Any


class Engine(Protocol):
    """One model in memory. Calls come from one thread; `cancel` may come while a stream is being consumed."""

    @property
    def mode(self) -> Mode: ...

    @property
    def digest(self) -> str:
        """Return the digest of the weights in use. Raises EngineStopped."""
        ...

    def start(self, weights: Weights) -> None:
        """Take weights and check what the mode promises. Raises NotExact, WeightsRefused, EngineFailed."""
        ...

    def stream(self, requests: Sequence[Request], sampling: Sampling, limits: Limits) -> Iterator[Tokens | Completion]:
        """Yield the tokens of each step as they are chosen, and each completion when it is whole.

        Raises PromptTooLong, RequestRefused before the first token, NotFinite, EngineBusy, EngineStopped, EngineFailed,
        and WeightsRefused where other weights than those of `digest` have answered.
        """
        ...

    def score(self, texts: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float32]]:
        """Return the log-probability of every token but the first of each text, float32 [len(text) - 1].

        Raises PromptTooLong when a text is longer than a row of training, EngineStopped.
        """
        ...

    def swap(self, weights: Weights) -> None:
        """Replace the weights. Raises EngineBusy while sequences are in progress, EngineStopped."""
        ...

    def cancel(self, number: int, /) -> None:
        """End a completion at its next token with what it has. A number that is not in progress changes nothing."""
        ...

    def stop(self) -> None:
        """Free the memory. Every later call but `start` raises EngineStopped."""
        ...


def generate(
    engine: Engine,
    requests: Sequence[Request],
    sampling: Sampling,
    limits: Limits,
    *,
    advanced: Callable[[int], object] = lambda _: None,
) -> list[Completion]:
    """Return the completions in the order of the requests. Raises what `stream` raises.

    `advanced` is called with the number of tokens of each step.
    """
    whole = {}
    for event in engine.stream(requests, sampling, limits):
        if isinstance(event, Completion):
            whole[event.number] = event
        else:
            advanced(len(event.tokens))
    return [whole[request.number] for request in requests]
