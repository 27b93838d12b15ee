"""A document: the text of one page, under a name that follows from its source and text.

`doc_id` does not depend on when, where or by how many workers the page was read.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import StrEnum

from tutti.records.canonical import JsonValue, hasher, keyed_bytes, named
from tutti.records.errors import CorpusError


class MediaType(StrEnum):
    """The format of a page."""

    HTML = "text/html"
    MARKDOWN = "text/markdown"
    PLAIN = "text/plain"


class Extraction(StrEnum):
    """The method that extracted the text of a page."""

    MAIN = "main"  # main content, navigation and boilerplate left out
    BODY = "body"  # all visible text: main content was empty
    VERBATIM = "verbatim"  # the page is text


@dataclass(frozen=True, slots=True)
class Document:
    """One document; `doc_id` is 64 hex characters, `text_digest` names the text alone."""

    doc_id: str
    source: str
    text: str
    text_digest: str
    title: str
    media_type: MediaType
    charset: str
    replaced_characters: int
    extraction: Extraction
    normalisation_version: int

    @classmethod
    def make(
        cls,
        *,
        source: str,
        text: str,
        title: str,
        media_type: MediaType,
        charset: str,
        replaced_characters: int,
        extraction: Extraction,
        normalisation_version: int,
    ) -> Document:
        """Name a document: `source` is a canonical URL, or a path relative to the input root with `/`."""
        source, data = canonical_source(source), text.encode()
        return cls(
            doc_id=_id(source, data),
            source=source,
            text=text,
            text_digest=_digest(data),
            title=title,
            media_type=media_type,
            charset=charset,
            replaced_characters=replaced_characters,
            extraction=extraction,
            normalisation_version=normalisation_version,
        )

    def saying(self, text: str, title: str) -> Document:
        """The same page with another text and title, and so with another name."""
        data = text.encode()
        name = _id(canonical_source(self.source), data)
        return replace(self, doc_id=name, text=text, text_digest=_digest(data), title=title)

    def canonical(self) -> dict[str, JsonValue]:
        """The row that a shard's content digest covers; the text stands in it by its digest."""
        return {
            "charset": self.charset,
            "doc_id": self.doc_id,
            "extraction": self.extraction.value,
            "media_type": self.media_type.value,
            "normalisation_version": self.normalisation_version,
            "replaced_characters": self.replaced_characters,
            "source": self.source,
            "text_digest": self.text_digest,
            "title": self.title,
        }

    def require_true_name(self) -> None:
        """Raise CorpusError unless `doc_id` and `text_digest` follow from the source and text."""
        if self.text_digest != text_digest(self.text):
            raise CorpusError(f"document {self.doc_id}: its text is not the text of its text_digest; read it again")
        if self.doc_id != document_id(source=self.source, text=self.text):
            raise CorpusError(f"document {self.doc_id}: its id does not follow from its source and text; read it again")


def canonical_source(source: str) -> str:
    """NFC, `/` between the parts of a path; refuses an empty source."""
    if not source:
        raise CorpusError("a document needs a source: a URL, or a path relative to the input root")
    return unicodedata.normalize("NFC", source)


def document_id(*, source: str, text: str) -> str:
    """64 hex characters: H(canonical source, text)."""
    return _id(canonical_source(source), text.encode())


def text_digest(text: str) -> str:
    """`blake3:<hex>` of the text alone: equal for exact duplicates."""
    return _digest(text.encode())


def _id(source: str, text: bytes) -> str:
    return keyed_bytes("document id", source.encode(), text).hex()


def _digest(text: bytes) -> str:
    return named(hasher("document text").update(text))
