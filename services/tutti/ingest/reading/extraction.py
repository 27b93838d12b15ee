"""Extraction: a page, or a text, becomes a document, or a rejection with its reason.

HTML gives its main content, or all visible text where main content is empty or would take too long; text and Markdown
stay as they are. Which of these it was is recorded in the document. What was decoded wrongly before it was written is
repaired first (`mojibake.py`), then the text is normalised.

Each step is done for all records of a batch before the next: what it needs stays in the processor's cache, from which a
parser drives everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.ingest.encoding.mojibake import repaired
from tutti.ingest.encoding.normalisation import NORMALISATION_VERSION, normalise_title, normalised, utf8
from tutti.ingest.encoding.sniffing import decode, is_binary, is_pdf, media_type
from tutti.ingest.reading.containers import Page, Record
from tutti.ingest.reading.maincontent import main_text, visible_text
from tutti.ingest.reading.markup import rewritten
from tutti.ingest.reading.markupkinds import MAX_DEPTH, Mode
from tutti.ingest.reading.rejections import Reason, Rejection

EXTRACTION_VERSION = 10
MOST_COST = 10**7
"""Maximum cost of a page whose main content is extracted: it takes half a second."""
MOST_TAGS = 1_000_000
"""Maximum number of elements of a page that is parsed: each takes 300 bytes of memory, and as little as 4 of a page."""
MAX_INDENTED = 64
"""Levels of a large page up to which its text has lines: those of lists are indented by twice their depth."""
MANY_TAGS = 1_000
_TOO_DEEP = f"more than {MAX_DEPTH} elements lie in each other"
_GZIP = b"\x1f\x8b"
_VISIBLE = re.compile("[!-~]")
"""Text that stays, however it is repaired and normalised."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class _Readable:
    """A record whose characters are known.

    `size`: what it is, and how much; `html`: in UTF-8, in place of a text.
    """

    path: str
    text: str
    title: str
    kind: MediaType
    charset: str
    replaced: int
    size: str
    html: bytes = b""


@dataclass(frozen=True, slots=True)
class _Extracted:
    """A text and a title: at first as they stand in the record, then as they are written."""

    of: _Readable
    text: str
    title: str
    how: Extraction


def extract_all(records: Iterable[Record]) -> list[Document | Rejection]:
    """The documents or rejections of records, in their order."""
    readable = [_readable(each) for each in records]
    return _each(_document, _each(_written, _each(_found, readable)))


def extract(record: Record) -> Document | Rejection:
    """The document or rejection of one record."""
    return extract_all([record])[0]


def _each(step: Callable[[_Given], _Made | Rejection], items: Iterable[_Given | Rejection]) -> list[_Made | Rejection]:
    return [each if isinstance(each, Rejection) else step(each) for each in items]


def _readable(record: Record) -> _Readable | Rejection:
    if isinstance(record, Rejection):
        return record
    if isinstance(record, Page):
        return _decoded(record)
    size = f"{len(record.text)} characters"
    return _Readable(record.path, record.text, record.title, MediaType.PLAIN, "utf-8", replaced=0, size=size)


def _decoded(page: Page) -> _Readable | Rejection:
    if not page.data:
        return Rejection(page.path, Reason.EMPTY, "the file is empty")
    if is_pdf(page.data):
        return Rejection(page.path, Reason.PDF, f"expected text, begins with {page.data[:8]!r}: convert it to text")
    if is_binary(page.data, page.declared):
        advice = ": unpack it, only JSON lines and WARC are read gzipped" if page.data[:2] == _GZIP else ""
        return Rejection(page.path, Reason.BINARY, f"expected text, begins with {page.data[:8]!r}{advice}")
    kind = media_type(page.path, page.data, page.declared, page.kind)
    decoded = decode(page.data, kind, page.declared)
    if decoded.unreadable:
        detail = f"{decoded.replaced} of {len(decoded.text)} characters are not {decoded.charset}"
        return Rejection(page.path, Reason.UNDECODABLE, detail)
    size = f"{len(page.data)} bytes of {kind.value}"
    is_html = kind is MediaType.HTML
    text, html = ("", decoded.utf8(page.data)) if is_html else (decoded.text, b"")
    return _Readable(page.path, text, "", kind, decoded.charset, decoded.replaced, size, html)


def _found(page: _Readable) -> _Extracted | Rejection:
    if page.kind is not MediaType.HTML:
        return _Extracted(page, page.text, page.title, Extraction.VERBATIM)
    main = rewritten(page.html, Mode.MAIN)
    if main.cost <= MOST_COST and main.tags <= MOST_TAGS and not main.too_deep:
        text = main_text(main.html.decode())
        if _VISIBLE.search(text) or _one_form(text):
            return _Extracted(page, text, main.title, Extraction.MAIN)
    shown = rewritten(page.html, Mode.VISIBLE)
    if main.too_deep or shown.too_deep:
        return Rejection(page.path, Reason.TOO_DEEP, _TOO_DEEP)
    if shown.tags > MOST_TAGS:
        return Rejection(page.path, Reason.TOO_DEEP, f"{shown.tags} elements, expected at most {MOST_TAGS}")
    lines = shown.levels <= MAX_INDENTED or shown.tags < MANY_TAGS
    return _Extracted(page, visible_text(shown.html.decode(), lines=lines), main.title, Extraction.BODY)


def _one_form(text: str) -> str:
    return normalised(repaired(utf8(text)))


def _written(found: _Extracted) -> _Extracted:
    text = _one_form(found.text)
    title = repaired(utf8(found.title)).decode("utf-8", "surrogatepass")
    if found.of.kind is MediaType.MARKDOWN:
        title = next((line.lstrip("#") for line in text.split("\n") if line.startswith("# ")), "")
    return _Extracted(found.of, text, normalise_title(title), found.how)


def _document(found: _Extracted) -> Document | Rejection:
    if not found.text:
        return Rejection(found.of.path, Reason.EMPTY, f"no text in {found.of.size}")
    return Document.make(
        source=found.of.path,
        text=found.text,
        title=found.title,
        media_type=found.of.kind,
        charset=found.of.charset,
        replaced_characters=found.of.replaced,
        extraction=found.how,
        normalisation_version=NORMALISATION_VERSION,
    )
