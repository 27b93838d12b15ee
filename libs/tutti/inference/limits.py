"""The limits of a continuation, and the reasons why one ends. Does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tutti.inference.errors import InvalidSampling
from tutti.native.arrays import np, npt


class Stop(StrEnum):
    """The reason why a continuation ended."""

    END = "end"
    """The model chose the token that ends a text."""
    TOKENS = "tokens"
    """As many tokens as were asked for."""
    CONTEXT = "context"
    """Prompt and continuation fill the model's context."""
    CANCELLED = "cancelled"
    """The caller cancelled it."""


@dataclass(frozen=True)
class Limits:
    """`tokens`: at most so many a continuation; `end`: the id that ends a text, as those in `ends` do too;
    `vocabulary`: ids below it are chosen, but those in `never`: role tokens, which would open a turn.

    A model may have more ids than its tokenizer; those stand for no text.
    """

    tokens: int
    end: int
    vocabulary: int
    never: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raises InvalidSampling."""
        if self.tokens < 1:
            raise InvalidSampling("tokens", seen=self.tokens, expected="at least 1")

    def is_end(self, token: int) -> bool:
        """True if the token ends a text."""
        return token == self.end or token in self.ends

    def eligible(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The logits of the ids below `vocabulary`; ids that are never chosen have no probability. Last axis: ids."""
        found = logits[..., : self.vocabulary]
        if self.never:
            found = found.copy()
            found[..., list(self.never)] = np.finfo(np.float32).min
        return found
