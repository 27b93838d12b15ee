"""Texts continued token by token, many beside each other.

Promises: a continuation follows from its prompt, its number, the sampling and the limits, whatever else is continued
with it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tutti.inference.decoder import Decoder, Text
from tutti.inference.errors import PromptTooLong
from tutti.inference.limits import Limits, Stop
from tutti.inference.memory import ROWS
from tutti.inference.sampling import Sampling, choose, draw


@dataclass(frozen=True)
class Continuation:
    """The tokens that follow a prompt, without the one that ends the text."""

    tokens: tuple[int, ...]
    stop: Stop


def generate(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    limits: Limits,
    *,
    first: int = 0,
    advanced: Callable[[int], object] = lambda _: None,
) -> list[Continuation]:
    """Continue each prompt; an empty one begins as a text does that follows another's end.

    Prompt k draws as number `first + k`; `advanced` is called with the number of tokens made. Raises PromptTooLong when
    a prompt fills the model's context, NotFinite.
    """
    context = decoder.model.context
    begins = [list(prompt) or [limits.end] for prompt in prompts]
    for number, prompt in enumerate(begins):
        if len(prompt) >= context:
            raise PromptTooLong(
                f"prompt {number} has {len(prompt)} tokens, the model's context is {context}; shorten it by at least "
                f"{len(prompt) - context + 1}"
            )
    every = [_Growing(prompt, first + k, context, sampling, limits) for k, prompt in enumerate(begins)]
    waiting, active = deque(every), dict[Text, _Growing]()
    while waiting or active:
        while waiting and len(active) < ROWS:
            text, logits = decoder.begin(waiting[0].prompt, room=waiting[0].room)
            active[text] = waiting.popleft()
            active[text].take(logits.cpu().numpy())
            advanced(1)
        active = {text: growing for text, growing in active.items() if growing.stop is None}
        if active:
            rows = decoder.step(list(active), [growing.tokens[-1] for growing in active.values()])
            for growing, logits in zip(active.values(), rows.cpu().numpy(), strict=True):
                growing.take(logits)
                advanced(1)
    return [growing.continuation() for growing in every]


class _Growing:
    """A continuation that is not whole yet."""

    def __init__(self, prompt: list[int], number: int, context: int, sampling: Sampling, limits: Limits) -> None:
        self.prompt, self._number = prompt, number
        self._sampling, self._limits = sampling, limits
        self.room = min(context, len(prompt) + limits.tokens)
        self.tokens: list[int] = []
        self.stop: Stop | None = None

    def take(self, logits: npt.NDArray[np.float32]) -> None:
        """Choose the next token by its logits [vocabulary]."""
        position = len(self.prompt) + len(self.tokens)
        drawn = draw(self._sampling.seed, self._number, position)
        token = choose(self._limits.eligible(logits), self._sampling, drawn)
        if self._limits.is_end(token):
            self.stop = Stop.END
            return
        self.tokens.append(token)
        if len(self.tokens) == self._limits.tokens:
            self.stop = Stop.TOKENS
        elif position + 1 == self.room:
            self.stop = Stop.CONTEXT

    def continuation(self) -> Continuation:
        assert self.stop is not None
        return Continuation(tuple(self.tokens), self.stop)
