"""Sitemaps: pages, and other sitemaps, that a host lists (sitemaps.org, version 0.9), as XML or as lines of text.

Promises: no more than the protocol allows is taken (50,000 URLs, 50 MiB once unpacked), and nothing of another host;
a document type, where entities would be declared, is refused.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from tutti.ingest.crawl.urls import NotAPage, canonical, host_of

MAX_URLS = 50_000
MAX_BYTES = 50 << 20
_PIECE = 1 << 16


class BadSitemap(Exception):
    """What was read is no sitemap; the message says what it is."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Canonical URLs in their order, each once: of pages, and of further sitemaps."""

    pages: tuple[str, ...]
    sitemaps: tuple[str, ...]


def sitemap(url: str, body: bytes) -> Sitemap:
    """What the sitemap at a canonical URL lists. Raises BadSitemap."""
    data = _unpacked(body)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        pages, others = _of_xml(data)
    else:
        pages, others = [line.strip() for line in data.decode("utf-8", "replace").splitlines()[:MAX_URLS]], []
    return Sitemap(tuple(dict.fromkeys(_own(pages, url))), tuple(dict.fromkeys(_own(others, url))))


def _own(references: list[str], url: str) -> Iterator[str]:
    for reference in references:
        try:
            found = canonical(reference) if reference else ""
        except NotAPage:
            continue
        if found and host_of(found) == host_of(url):
            yield found


def _of_xml(data: bytes) -> tuple[list[str], list[str]]:
    pages, others = list[str](), list[str]()
    parser: ET.XMLPullParser[ET.Element] = ET.XMLPullParser(events=("end",))
    try:
        for begin in range(0, len(data), _PIECE):
            piece = data[begin : begin + _PIECE]
            if b"<!DOCTYPE" in data[max(0, begin - 9) : begin + _PIECE]:
                raise BadSitemap("it declares a document type")
            parser.feed(piece)
            for _, element in cast("Iterator[tuple[str, ET.Element]]", parser.read_events()):
                kind = element.tag.rpartition("}")[2]
                if kind in ("url", "sitemap"):
                    place = next((each.text or "" for each in element if each.tag.rpartition("}")[2] == "loc"), "")
                    (pages if kind == "url" else others).append(place.strip())
                    element.clear()
                    if len(pages) + len(others) >= MAX_URLS:
                        return pages, others
        parser.close()
    except ET.ParseError as error:
        if not pages and not others:
            raise BadSitemap(f"it is no XML ({error})") from error
    return pages, others


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(b"\x1f\x8b"):
        return body[:MAX_BYTES]
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body, MAX_BYTES)
    except zlib.error as error:
        raise BadSitemap(f"it cannot be unpacked ({error})") from error
