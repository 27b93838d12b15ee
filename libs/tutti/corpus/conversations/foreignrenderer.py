"""Conversations as tokens by the chat template that came with a tokenizer of others.

Promises: between two added tokens that the template writes, the ids are those of the library for all of the text there,
of the template and of messages, but that an answer begins with a token of its own. No text of a message becomes an
added token.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from tutti.corpus.conversations.chattemplate import Begun, ChatTemplate, Generated, Piece, Slot
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.rendered import Rendered, TemplateError, require_question
from tutti.native.arrays import np, npt

_BATCH = 64
MOST_ORDERS = 1024
"""Orders of roles whose parts are remembered."""
_UNTRAINED = -1


class AddedTokens(Protocol):
    """A tokenizer of others, as its own template needs it."""

    @property
    def version(self) -> str: ...

    @property
    def ends(self) -> tuple[int, ...]: ...

    @property
    def added(self) -> Mapping[str, Added]: ...

    def encode_all(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.uint32]]: ...

    def encode_behind(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.uint32]]: ...


class Added(Protocol):
    """An added token: `left` and `right` are true where it takes the spaces beside it."""

    @property
    def number(self) -> int: ...

    @property
    def special(self) -> bool: ...

    @property
    def left(self) -> bool: ...

    @property
    def right(self) -> bool: ...


@dataclass(frozen=True)
class Part:
    """A part of a conversation that is encoded as one: an added token, or a text with places for messages.

    `trained` is the number of the message that it is the answer of, or -1.
    """

    token: int = 0
    text: tuple[str | Slot, ...] = ()
    trained: int = _UNTRAINED

    def filled(self, messages: Sequence[Message]) -> str:
        """The text with the contents of the messages."""
        return "".join(
            each if isinstance(each, str) else each.filled(messages[each.message].content) for each in self.text
        )


class ForeignRenderer:
    """A template with the tokenizer that it came with."""

    def __init__(self, template: ChatTemplate, tokenizer: AddedTokens) -> None:
        self.template, self.tokenizer = template, tokenizer
        words = sorted(tokenizer.added, key=lambda each: (-len(each), each))
        self._words = re.compile("|".join(map(self._pattern, words)) or r"(?!)")
        self._parts = lru_cache(MOST_ORDERS)(self._parts_of)

    @property
    def digest(self) -> str:
        """The digest of the template."""
        return self.template.digest

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that a model does not write: special tokens, but those that end an answer."""
        special = {each.number for each in self.tokenizer.added.values() if each.special}
        return tuple(sorted(special - {*self.tokenizer.ends}))

    @property
    def end(self) -> int:
        """The id behind an answer. Raises TemplateError for a template without one."""
        return next(each.token for each in self._endings(self._planned((Role.USER, Role.ASSISTANT))))

    @property
    def takes_system(self) -> bool:
        """True if the template takes a message of the system, and one of the user after it."""
        return not self.refuses((Message(Role.SYSTEM, ""), Message(Role.USER, "")))

    def refuses(self, messages: Sequence[Message]) -> bool:
        """Return whether the template refuses a conversation with messages of these roles."""
        try:
            self._planned(_roles(messages))
        except TemplateError:
            return True
        return not messages

    def render(self, messages: Sequence[Message]) -> Rendered:
        """Return the tokens of a whole conversation. Raises TemplateError for one that the template refuses."""
        return next(self.render_all([messages]))

    def render_all(self, conversations: Iterable[Sequence[Message]]) -> Iterator[Rendered]:
        """Yield the tokens of each conversation, in order; their texts are encoded many at a time."""
        iterator = iter(conversations)
        while batch := list(itertools.islice(iterator, _BATCH)):
            for messages in batch:
                if not messages:
                    raise TemplateError("a conversation without messages; expected at least one")
            yield from self._joined([(messages, self._planned(_roles(messages))) for messages in batch])

    def open(self, prompt: Sequence[Message]) -> npt.NDArray[np.int32]:
        """Return the tokens after which a model writes the assistant's answer to a prompt, int32 [tokens].

        Raises TemplateError for a conversation that the assistant has answered already, or that the template refuses.
        """
        require_question(prompt)
        return next(self._joined([(prompt, self._planned(_roles(prompt), opened=True))])).ids

    def _joined(self, asked: Sequence[tuple[Sequence[Message], tuple[Part, ...]]]) -> Iterator[Rendered]:
        """The conversations as their parts say; the first text of one is encoded as the beginning of a text."""
        firsts = [parts[0].filled(messages) for messages, parts in asked if parts and parts[0].text]
        others = [part.filled(messages) for messages, parts in asked for part in parts[1:] if part.text]
        first, other = self.tokenizer.encode_all(firsts), self.tokenizer.encode_behind(others)
        for messages, parts in asked:
            ids, answer = [np.zeros(0, np.int32)], [np.zeros(0, np.bool_)]
            for place, part in enumerate(parts):
                found = next(other if place else first) if part.text else np.array([part.token])
                trained = part.trained != _UNTRAINED and messages[part.trained].trained
                ids.append(found.astype(np.int32))
                answer.append(np.full(len(found), trained))
            yield Rendered(np.concatenate(ids), np.concatenate(answer))

    def _planned(self, roles: Sequence[str], *, opened: bool = False) -> tuple[Part, ...]:
        """The parts of conversations with these roles. Raises TemplateError."""
        found = self._parts(tuple(map(str, roles)), opened)
        if isinstance(found, TemplateError):
            raise TemplateError(str(found))
        return found

    def _parts_of(self, roles: tuple[str, ...], opened: bool) -> tuple[Part, ...] | TemplateError:
        """The parts, or the error, which is remembered too."""
        try:
            parts = tuple(self._divided(_answered(self.template.skeleton(roles, opened=opened), roles)))
        except TemplateError as error:
            return error
        ended = {each.trained for each in self._endings(parts)}
        if not ended.issuperset(number for number, role in enumerate(roles) if role == Role.ASSISTANT):
            return TemplateError("the chat template ends an answer with none of the end tokens of the tokenizer")
        return parts

    def _endings(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The end tokens of answers."""
        ends = self.tokenizer.ends
        return (each for each in parts if each.trained != _UNTRAINED and not each.text and each.token in ends)

    def _divided(self, pieces: Iterable[tuple[str | Slot, int, bool]]) -> Iterator[Part]:
        """The pieces at the added tokens of the template, and at the beginnings of answers.

        Without a block of the template, an answer ends with the first end token behind it.
        """
        text, before, ended = list[str | Slot](), _UNTRAINED, _UNTRAINED
        for piece, trained, until_end in pieces:
            if trained == ended != _UNTRAINED:
                trained = _UNTRAINED
            if trained != before and text:
                yield Part(text=tuple(text), trained=before)
                text = []
            before = trained
            if isinstance(piece, Slot):
                text.append(piece)
                continue
            at = 0
            for match in self._words.finditer(piece):
                if match.start() > at:
                    text.append(piece[at : match.start()])
                if text:
                    yield Part(text=tuple(text), trained=before)
                    text = []
                token = self.tokenizer.added[match[0].strip() or match[0]].number
                yield Part(token, trained=before)
                at = match.end()
                if until_end and before != _UNTRAINED and token in self.tokenizer.ends:
                    ended, before = before, _UNTRAINED
            if at < len(piece):
                text.append(piece[at:])
        if text:
            yield Part(text=tuple(text), trained=before)

    def _pattern(self, word: str) -> str:
        token = self.tokenizer.added[word]
        left, right = (r"\s*" if takes else "" for takes in (token.left, token.right))
        return f"{left}{re.escape(word)}{right}"


def _roles(messages: Sequence[Message]) -> tuple[str, ...]:
    return tuple(str(each.role) for each in messages)


def _answered(pieces: Sequence[Piece], roles: Sequence[str]) -> Iterator[tuple[str | Slot, int, bool]]:
    """The pieces with the number of the message that each is the answer of, or -1; True: up to the next end token.

    Where the template says what it generates, that is the answer whose content it has; else an answer begins where the
    assistant is asked for it, or with its content.
    """
    if any(isinstance(each, Generated) for each in pieces):
        yield from _said(pieces, roles)
        return
    answer = _UNTRAINED
    for piece in pieces:
        if isinstance(piece, Slot):
            answer = piece.message if roles[piece.message] == Role.ASSISTANT else _UNTRAINED
        if isinstance(piece, Begun):
            answer = piece.message
        elif isinstance(piece, str | Slot):
            yield piece, answer, True


def _said(pieces: Sequence[Piece], roles: Sequence[str]) -> Iterator[tuple[str | Slot, int, bool]]:
    inside, held = False, list[str | Slot]()
    for piece in pieces:
        if isinstance(piece, Generated):
            number = next(
                (each.message for each in held if isinstance(each, Slot) and roles[each.message] == Role.ASSISTANT),
                _UNTRAINED,
            )
            yield from ((each, number, False) for each in held)
            inside, held = piece.begins, []
        elif isinstance(piece, Begun):
            continue
        elif inside:
            held.append(piece)
        else:
            yield piece, _UNTRAINED, False
    yield from ((each, _UNTRAINED, False) for each in held)
