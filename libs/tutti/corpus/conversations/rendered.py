"""Conversations as tokens, and what renders them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tutti.corpus.conversations.conversations import Message, Role
from tutti.native.arrays import np, npt
from tutti.records.errors import CorpusError


class TemplateError(CorpusError):
    """A template is not known, or a tokenizer or a conversation does not fit it."""


@dataclass(frozen=True)
class Rendered:
    """A conversation as tokens: `ids` int32 [tokens]; `answer` bool [tokens], true for turns of the assistant that are
    trained, their end included, and false for the tokens before an answer.
    """

    ids: npt.NDArray[np.int32]
    answer: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)


def require_question(prompt: Sequence[Message]) -> None:
    """Raise TemplateError for a conversation that the assistant has answered already, or without messages."""
    if not prompt or prompt[-1].role is Role.ASSISTANT:
        seen = "the assistant's" if prompt else "none"
        raise TemplateError(f"a prompt whose last message is {seen}; expected the user's, or the system's")


class Renderer(Protocol):
    """A chat template with a tokenizer."""

    @property
    def tokenizer(self) -> object: ...

    @property
    def digest(self) -> str:
        """The digest of the template, `blake3:<hex>`."""

    @property
    def end(self) -> int:
        """The id behind an answer. Raises TemplateError for a template without one."""

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that a model does not write, such as those that open a turn."""

    @property
    def takes_system(self) -> bool:
        """True if a conversation may begin with a message of the system."""

    def refuses(self, messages: Sequence[Message]) -> bool:
        """Return whether the template refuses a conversation with messages of these roles."""

    def render(self, messages: Sequence[Message]) -> Rendered:
        """Return the tokens of a whole conversation. Raises TemplateError."""

    def render_all(self, conversations: Iterable[Sequence[Message]]) -> Iterator[Rendered]:
        """Yield the tokens of each conversation, in order; their texts are encoded many at a time."""

    def open(self, prompt: Sequence[Message]) -> npt.NDArray[np.int32]:
        """Return the tokens after which a model writes the assistant's answer to a prompt, int32 [tokens].

        Raises TemplateError for a conversation that the assistant has answered already.
        """
