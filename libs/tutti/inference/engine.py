"""The port of an engine: it generates tokens, scores texts, and changes its weights between the two.

Promises: a completion follows from the weights, its prompt, its number, the sampling and the limits, whatever else is
generated beside it. An engine over another program promises this up to the rounding of that program. An engine that is
started in exact mode gives log-probabilities with the bits of training's forward. Does not import torch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tutti.inference.errors import InferenceError
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling


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

    def cancel(self, number: int) -> None:
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
