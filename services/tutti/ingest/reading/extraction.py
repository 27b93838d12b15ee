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

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from tutti.corpus.documents import Document, Extraction, MediaType
from tutti.ingest.encoding.census import NOTHING, Census, census
from tutti.ingest.encoding.mojibake import repaired
from tutti.ingest.encoding.normalisation import NORMALISATION_VERSION, normalise_title, normalised, utf8
from tutti.ingest.encoding.sniffing import decode, is_binary, is_pdf, media_type
from tutti.ingest.reading.containers import Page, Record
from tutti.ingest.reading.maincontent import main_text
from tutti.ingest.reading.nesting import (
    MAX_DEPTH,
    MAX_INDENTED,
    MOST_LEVELS,
    TOO_DEEP,
    levels,
    parsed,
    unwrap_labels,
    why_not_parsed,
)
from tutti.ingest.reading.rejections import Reason, Rejection

EXTRACTION_VERSION = 6
_GZIP = b"\x1f\x8b"
_VISIBLE = re.compile("[!-~]")
"""What stays, however a text is repaired and normalised."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class _Readable:
    """A record whose characters are known.

    `size`: what it is, and how much; `seen`: of HTML in UTF-8.
    """

    path: str
    text: str
    title: str
    kind: MediaType
    charset: str
    replaced: int
    size: str
    seen: Census = NOTHING


@dataclass(frozen=True, slots=True)
class _Extracted:
    """A text and a title: at first as they stand in the record, then as they are written."""

    of: _Readable
    text: str
    title: str
    how: Extraction


def extract_all(records: Iterable[Record]) -> list[Document | Rejection]:
    """What becomes of records, in their order."""
    readable = [_readable(each) for each in records]
    return _each(_document, _each(_written, _each(_found, readable)))


def extract(record: Record) -> Document | Rejection:
    """What becomes of one record."""
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
    seen = census(page.data)
    if is_binary(page.data, page.declared, seen):
        advice = ": unpack it, only JSON lines and WARC are read gzipped" if page.data[:2] == _GZIP else ""
        return Rejection(page.path, Reason.BINARY, f"expected text, begins with {page.data[:8]!r}{advice}")
    kind = media_type(page.path, page.data, page.declared, page.kind)
    decoded = decode(page.data, kind, page.declared)
    if decoded.unreadable:
        detail = f"{decoded.replaced} of {len(decoded.text)} characters are not {decoded.charset}"
        return Rejection(page.path, Reason.UNDECODABLE, detail)
    if kind is MediaType.HTML:
        data = decoded.utf8(page.data)
        seen = seen if data is page.data else census(data)
        if why := why_not_parsed(data, decoded.text, seen):
            return Rejection(page.path, Reason.TOO_DEEP, why)
    size = f"{len(page.data)} bytes of {kind.value}"
    return _Readable(page.path, decoded.text, "", kind, decoded.charset, decoded.replaced, size, seen)


def _found(page: _Readable) -> _Extracted | Rejection:
    if page.kind is not MediaType.HTML:
        return _Extracted(page, page.text, page.title, Extraction.VERBATIM)
    tree = parsed(page.text, page.seen)
    if (depth := levels(tree, page.seen)) > 2 * MAX_DEPTH:
        return Rejection(page.path, Reason.TOO_DEEP, TOO_DEEP)
    title = tree.title or ""
    # Lines of lists in lists are indented by twice their depth.
    lines = depth <= MAX_INDENTED or page.seen.tags < 2 * MAX_DEPTH
    if depth * page.seen.tags > MOST_LEVELS:
        return _Extracted(page, _visible(tree, lines=lines), title, Extraction.BODY)
    if "<label" in page.text:
        unwrap_labels(tree)
    text = main_text(tree, page.text)
    if _VISIBLE.search(text) or _one_form(text):
        return _Extracted(page, text, title, Extraction.MAIN)
    return _Extracted(page, _visible(tree, lines=lines), title, Extraction.BODY)


def _visible(tree: HTMLTree, *, lines: bool) -> str:
    """All text that a page shows."""
    return str(extract_plain_text(tree, preserve_formatting=lines, main_content=False, alt_texts=False))


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
