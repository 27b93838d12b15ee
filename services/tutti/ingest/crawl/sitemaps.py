"""Sitemaps: pages, and other sitemaps, that a host lists (sitemaps.org, version 0.9), as XML or as lines of text.

Promises: no more than the protocol allows is taken (50,000 URLs, 50 MiB once unpacked), and nothing of another host; of
XML nothing is held but what is listed, however much there is; a document type, where entities would be declared, is
refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.parsers import expat

from tutti.ingest.crawl.urls import MAX_LENGTH, NotAPage, canonical, host_of
from tutti.ingest.failures import FetchFailed
from tutti.ingest.reading.encodings import undone

MAX_URLS = 50_000
MAX_BYTES = 50 << 20
MAX_ELEMENTS = 2_000_000
"""Maximum number of elements: forty for each URL, such as the same page in other languages."""
MAX_DEPTH = 50
_PIECE = 1 << 16
_MAX_TAG = 1 << 20
"""Bytes of a tag, a comment or an instruction: each comes at once, and with each piece is read from its beginning."""
_LINE = re.compile(rb"[^\r\n]+")


class BadSitemap(Exception):
    """The content is not a sitemap; the message says what it is."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Canonical URLs in their order, each once: of pages, and of further sitemaps."""

    pages: tuple[str, ...]
    sitemaps: tuple[str, ...]


def sitemap(url: str, body: bytes) -> Sitemap:
    """The URLs in the sitemap at a canonical URL. Raises BadSitemap."""
    data = _unpacked(body)
    pages: Iterable[str]
    others: Iterable[str]
    if data[:_PIECE].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        pages, others = _of_xml(data)
    else:
        lines = itertools.islice(_LINE.finditer(data), MAX_URLS)
        pages, others = (line[0][: 4 * MAX_LENGTH].decode("utf-8", "replace").strip() for line in lines), ()
    return Sitemap(tuple(dict.fromkeys(_own(pages, url))), tuple(dict.fromkeys(_own(others, url))))


def _own(references: Iterable[str], url: str) -> Iterator[str]:
    for reference in references:
        try:
            found = canonical(reference) if reference else ""
        except NotAPage:
            continue
        if found and host_of(found) == host_of(url):
            yield found


def _of_xml(data: bytes) -> tuple[list[str], list[str]]:
    """The entries before a syntax error, if there are any."""
    listed = _Listed()
    try:
        listed.read(data)
    except _Enough:
        pass
    except (expat.ExpatError, BadSitemap) as error:
        if isinstance(error, BadSitemap) and listed.declared:
            raise
        if not listed.pages and not listed.sitemaps:
            raise BadSitemap(f"it cannot be read ({error})") from error
    return listed.pages, listed.sitemaps


class _Enough(Exception):
    """Stop reading: there are enough entries."""


class _Listed:
    """The entries of the elements that have ended so far."""

    def __init__(self) -> None:
        self.pages, self.sitemaps = list[str](), list[str]()
        self.declared = False
        self._names = list[str]()
        self._elements = 0
        self._place: list[str] | None = None
        """The text of the first `loc` of the `url` or `sitemap` that was begun last."""
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.buffer_text = True
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._begin, self._end
        self._parser.StartDoctypeDeclHandler = self._declare

    def read(self, data: bytes) -> None:
        """Raises ExpatError, BadSitemap, _Enough."""
        for begin in range(0, len(data), _PIECE):
            piece = data[begin : begin + _PIECE]
            self._parser.Parse(piece, False)
            if begin + len(piece) - self._parser.CurrentByteIndex > _MAX_TAG:
                raise BadSitemap("a tag, or a comment, is of more than a MiB")
        self._parser.Parse(b"", True)

    def _declare(self, *_: object) -> None:
        self.declared = True
        raise BadSitemap("it declares a document type")

    def _begin(self, name: str, _: object) -> None:
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise _Enough
        if len(self._names) >= MAX_DEPTH:
            raise BadSitemap(f"its elements are more than {MAX_DEPTH} deep")
        kind = name.rpartition("}")[2]
        self._names.append(kind)
        if kind in ("url", "sitemap"):
            self._place = None
        elif kind == "loc" and self._place is None and self._names[-2:-1] in (["url"], ["sitemap"]):
            self._place = []
            self._parser.CharacterDataHandler = self._text

    def _text(self, text: str) -> None:
        if self._place is not None and len(self._place) < MAX_LENGTH:
            self._place.append(text[: 4 * MAX_LENGTH])

    def _end(self, _: str) -> None:
        kind = self._names.pop()
        if kind == "loc":
            self._parser.CharacterDataHandler = None
        elif kind in ("url", "sitemap"):
            (self.pages if kind == "url" else self.sitemaps).append("".join(self._place or ()).strip())
            self._place = None
            if len(self.pages) + len(self.sitemaps) >= MAX_URLS:
                raise _Enough


def _unpacked(body: bytes) -> bytes:
    """As much as may be of all members; one that is cut gives what it has."""
    if not body.startswith(b"\x1f\x8b"):
        return body[:MAX_BYTES]
    try:
        return undone(body, "gzip", MAX_BYTES, cut=True, part=True)
    except FetchFailed as error:
        raise BadSitemap(f"it cannot be unpacked ({error.detail})") from error
