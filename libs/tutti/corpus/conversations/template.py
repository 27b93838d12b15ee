"""Chat templates: how messages become tokens, and which of these tokens are the assistant's.

Promises: a template is named by its version and by the digest of its definition; its role tokens are reserved ids of
the tokenizer, which no text encodes to, so no message can open a turn. An answer ends with the end of text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.rendered import Rendered, TemplateError, require_question
from tutti.native.arrays import np, npt
from tutti.records.canonical import JsonValue, content_digest

REMEDY = (
    "set `template` in the recipe that trains the tokenizer and run it again, or set `convert: reserved@1` in the "
    "stage `sft` that goes on with the checkpoint"
)


class Encoder(Protocol):
    """The tokenizer, as a template needs it."""

    @property
    def version(self) -> str: ...

    @property
    def eos(self) -> int: ...

    @property
    def reserved(self) -> Mapping[str, int]: ...

    def encode_all(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.uint32]]: ...


@dataclass(frozen=True)
class Template:
    """A turn is its role token and the tokens of its text; an assistant's turn ends with the end of text.

    `roles` maps each role to its token.
    """

    name: str
    roles: Mapping[Role, str]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The role tokens that a tokenizer must reserve, in the order of the roles."""
        return tuple(self.roles[role] for role in Role)

    @cached_property
    def digest(self) -> str:
        """`blake3:<hex>` of all that decides how a conversation is rendered."""
        definition: dict[str, JsonValue] = {
            "name": self.name,
            "roles": {str(role): token for role, token in self.roles.items()},
            "turn": ["role", "text"],
            "end": {str(Role.ASSISTANT): "eos"},
        }
        return content_digest(definition, kind="chat template")

    def bind(self, tokenizer: Encoder) -> TurnRenderer:
        """Return the renderer for a tokenizer. Raises TemplateError where the role tokens are not reserved."""
        if missing := [token for token in self.tokens if token not in tokenizer.reserved]:
            raise TemplateError(
                f"the tokenizer {tokenizer.version} does not reserve {', '.join(missing)}, which {self.name} needs; "
                f"{REMEDY}"
            )
        return TurnRenderer(self, tokenizer)


class TurnRenderer:
    """A template with a tokenizer that reserves its role tokens."""

    def __init__(self, template: Template, tokenizer: Encoder) -> None:
        self.template, self.tokenizer = template, tokenizer
        self._ids = {role: tokenizer.reserved[token] for role, token in template.roles.items()}

    @property
    def digest(self) -> str:
        """The digest of the template."""
        return self.template.digest

    @property
    def end(self) -> int:
        """The id behind an answer: the end of text."""
        return self.tokenizer.eos

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that a model does not write: the tokenizer's role tokens."""
        return tuple(sorted(self.tokenizer.reserved.values()))

    @property
    def takes_system(self) -> bool:
        """True if the template has a role token of the system."""
        return Role.SYSTEM in self.template.roles

    def refuses(self, messages: Sequence[Message]) -> bool:
        """Return whether there are no messages: any others are rendered."""
        return not messages

    def render(self, messages: Sequence[Message]) -> Rendered:
        """Return the tokens of a whole conversation."""
        return next(self.render_all([messages]))

    def render_all(self, conversations: Iterable[Sequence[Message]]) -> Iterator[Rendered]:
        """Yield the tokens of each conversation, in order; their texts are encoded many at a time."""
        ahead, conversations = itertools.tee(conversations)
        texts = self.tokenizer.encode_all(message.content for messages in ahead for message in messages)
        for messages in conversations:
            yield self._joined(messages, texts)

    def _joined(self, messages: Sequence[Message], texts: Iterator[npt.NDArray[np.uint32]]) -> Rendered:
        """A conversation whose messages have the next of these texts."""
        ids: list[npt.NDArray[np.int32]] = []
        answer: list[npt.NDArray[np.bool_]] = []
        for message in messages:
            text, spoken = next(texts), message.role is Role.ASSISTANT
            turn = np.full(1 + len(text) + spoken, self.tokenizer.eos, np.int32)
            turn[0], turn[1 : 1 + len(text)] = self._ids[message.role], text
            ids.append(turn)
            answer.append(np.full(len(turn), spoken and message.trained))
            answer[-1][0] = False
        if not ids:
            raise TemplateError("a conversation without messages; expected at least one")
        return Rendered(np.concatenate(ids), np.concatenate(answer))

    def open(self, prompt: Sequence[Message]) -> npt.NDArray[np.int32]:
        """Return the tokens after which a model writes the assistant's answer to a prompt, int32 [tokens].

        Raises TemplateError for a conversation that the assistant has answered already.
        """
        require_question(prompt)
        ids = self.render(prompt).ids
        return np.append(ids, np.int32(self._ids[Role.ASSISTANT])).astype(np.int32)


CHAT_1 = Template("chat@1", MappingProxyType({role: f"<|{role}|>" for role in Role}))

TEMPLATES: Mapping[str, Template] = MappingProxyType({each.name: each for each in (CHAT_1,)})
"""By name. A name keeps its definition; another definition gets another name."""


def of_digest(digest: str) -> Template:
    """Return the template with this digest, as trainings name it. Raises TemplateError."""
    for each in TEMPLATES.values():
        if each.digest == digest:
            return each
    known = ", ".join(f"{each.name} ({each.digest})" for each in TEMPLATES.values())
    raise TemplateError(f"no chat template has the digest {digest}; this version has {known}: use a newer one")
