"""The renderer of a tokenizer: by a chat template of ours, or by the one that came with the tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tutti.corpus.conversations.chattemplate import ChatTemplate
from tutti.corpus.conversations.foreignrenderer import AddedTokens, ForeignRenderer
from tutti.corpus.conversations.rendered import Renderer, TemplateError
from tutti.corpus.conversations.template import Encoder, Template, of_digest

OWN = "own"
"""The name in recipes of the template that came with the tokenizer."""


class Marked(Protocol):
    """The chat template that is stored with a tokenizer of others, and the special tokens that it can name."""

    @property
    def template(self) -> str: ...

    @property
    def words(self) -> Mapping[str, str]: ...


class Tokenizer(Encoder, AddedTokens, Protocol):
    """A tokenizer as renderers need it; `marks` are those of a tokenizer of others."""

    @property
    def marks(self) -> Marked | None: ...


def own_template(tokenizer: Tokenizer) -> ChatTemplate:
    """Return the template that came with a tokenizer. Raises TemplateError where none did."""
    if tokenizer.marks is None or not tokenizer.marks.template:
        raise TemplateError(
            f"no chat template came with the tokenizer {tokenizer.version}; set `template: chat@1`, and `convert: "
            "reserved@1` in the stage `sft` that begins with the checkpoint"
        )
    return ChatTemplate(tokenizer.marks.template, tokenizer.marks.words)


def own_renderer(tokenizer: Tokenizer) -> Renderer:
    """Return the renderer by the template that came with a tokenizer. Raises TemplateError."""
    return ForeignRenderer(own_template(tokenizer), tokenizer)


def renderer_of(digest: str, tokenizer: Tokenizer) -> Renderer:
    """Return the renderer by the template with this digest, as trainings name it. Raises TemplateError."""
    template = template_of(digest, tokenizer)
    return ForeignRenderer(template, tokenizer) if isinstance(template, ChatTemplate) else template.bind(tokenizer)


def template_of(digest: str, tokenizer: Tokenizer) -> Template | ChatTemplate:
    """Return the template with this digest, of ours or that of the tokenizer. Raises TemplateError."""
    if tokenizer.marks is not None and tokenizer.marks.template and (own := own_template(tokenizer)).digest == digest:
        return own
    return of_digest(digest)
