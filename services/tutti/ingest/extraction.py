"""Extraction: a page, or a text, becomes a document, or a rejection with its reason.

HTML gives its main content, or all visible text where main content is empty or would take too long; text and Markdown
stay as they are. Which of these it was is recorded in the document. What was decoded wrongly before it was written is
repaired first (`mojibake.py`), then the text is normalised.
"""

from __future__ import annotations

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from tutti.corpus.documents import Document, Extraction, MediaType
from tutti.ingest.census import census
from tutti.ingest.containers import Page, Text
from tutti.ingest.mojibake import repaired
from tutti.ingest.nesting import MAX_DEPTH, levels, tags_too_deep
from tutti.ingest.normalisation import NORMALISATION_VERSION, normalise, normalise_title
from tutti.ingest.rejections import Reason, Rejection
from tutti.ingest.sniffing import decode, is_binary, is_pdf, media_type
from tutti.ingest.tags import too_dear
from tutti.ingest.visible import MOST, effort, visible_text

EXTRACTION_VERSION = 4
_GZIP = b"\x1f\x8b"


def extract(page: Page) -> Document | Rejection:
    """The document of a page."""
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
        return Rejection(
            page.path,
            Reason.UNDECODABLE,
            f"{decoded.replaced} of {len(decoded.text)} characters are not {decoded.charset}",
        )
    if kind is MediaType.HTML:
        if why := too_dear(decoded.utf8(page.data)):
            return Rejection(page.path, Reason.TOO_DEEP, why)
        tree = None if tags_too_deep(decoded.text, most=seen.tags) else HTMLTree.parse(decoded.text)
        if tree is None or (depth := levels(tree, tags=seen.tags)) > 2 * MAX_DEPTH:
            return Rejection(page.path, Reason.TOO_DEEP, f"elements lie more than {MAX_DEPTH} deep")
        work = effort(tree, tags=seen.tags, characters=len(decoded.text), depth=depth)
        text, title, how = _html(tree, main=work <= MOST)
    else:
        text, title, how = _verbatim(decoded.text, kind)
    if not text:
        return Rejection(page.path, Reason.EMPTY, f"no text in {len(page.data)} bytes of {kind.value}")
    return Document.make(
        source=page.path,
        text=text,
        title=title,
        media_type=kind,
        charset=decoded.charset,
        replaced_characters=decoded.replaced,
        extraction=how,
        normalisation_version=NORMALISATION_VERSION,
    )


def taken(found: Text) -> Document | Rejection:
    """The document of a text that was one before."""
    text = _written(found.text)
    if not text:
        return Rejection(found.path, Reason.EMPTY, f"no text in {len(found.text)} characters")
    return Document.make(
        source=found.path,
        text=text,
        title=_title(found.title),
        media_type=MediaType.PLAIN,
        charset="utf-8",
        replaced_characters=0,
        extraction=Extraction.VERBATIM,
        normalisation_version=NORMALISATION_VERSION,
    )


def _written(text: str) -> str:
    return normalise(repaired(text))


def _title(title: str) -> str:
    return normalise_title(repaired(title))


def _html(tree: HTMLTree, *, main: bool) -> tuple[str, str, Extraction]:
    """A text, a title, and how the text was taken; `main`: whether main content is looked for."""
    title = _title(tree.title or "")
    if not main:
        return _written(visible_text(tree)), title, Extraction.BODY
    if text := _written(extract_plain_text(tree, main_content=True, alt_texts=False)):
        return text, title, Extraction.MAIN
    return _written(extract_plain_text(tree, main_content=False, alt_texts=False)), title, Extraction.BODY


def _verbatim(text: str, kind: MediaType) -> tuple[str, str, Extraction]:
    text = _written(text)
    title = ""
    if kind is MediaType.MARKDOWN:
        title = next((line.lstrip("#") for line in text.split("\n") if line.startswith("# ")), "")
    return text, normalise_title(title), Extraction.VERBATIM
