"""Scope: which of the pages that were found are fetched.

Promises: a level of a crawl (all pages at one distance from its seeds) is decided as a whole, in the order of canonical
URLs, so that limits cut the same pages whoever found them first. What is left out has a reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import xxhash

from tutti.ingest.crawl.urls import host_of
from tutti.ingest.reading.tally import Tally

_DIGITS = re.compile(r"\d+")


class ExclusionReason(StrEnum):
    """The reason why a page that was found is not fetched."""

    ELSEWHERE = "elsewhere"  # below none of the prefixes
    EXCLUDED = "excluded"  # below one that is left out
    TOO_DEEP = "too_deep"  # more links away from every seed
    TRAP = "trap"  # a path that goes in circles, or one of too many alike
    LIMIT = "limit"  # the crawl, or its host, has as many pages as it may


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a crawl. `prefixes` and `without` are prefixes of canonical URLs.

    `alike`: of URLs that differ in digits, or in the values of parameters, alone (a calendar has a million), how many.
    """

    prefixes: tuple[str, ...]
    without: tuple[str, ...] = ()
    depth: int = 20
    pages: int = 1_000_000
    pages_of_host: int = 1_000_000
    alike: int = 1_000
    segments: int = 20
    parameters: int = 10


@dataclass(slots=True)
class PageCounts:
    """The number of selected pages: in all, by host, by shape. Memory is 20 bytes per shape and per host."""

    pages: int = 0
    _hosts: Tally = field(default_factory=Tally)
    _shapes: Tally = field(default_factory=Tally)

    def add(self, url: str) -> None:
        self.pages += 1
        self._hosts.add(_key(host_of(url)))
        self._shapes.add(_key(shape(url)))

    def grow(self, more: PageCounts) -> None:
        """By what was taken since."""
        self.pages += more.pages
        for mine, new in ((self._hosts, more._hosts), (self._shapes, more._shapes)):
            for key, count in new.items():
                mine.add(key, count)

    def of_host(self, url: str) -> int:
        """The number of selected pages of its host."""
        return self._hosts[_key(host_of(url))]

    def alike(self, url: str) -> int:
        """The number of selected pages of its shape."""
        return self._shapes[_key(shape(url))]


def _key(text: str) -> bytes:
    return xxhash.xxh3_128_digest(text.encode())


def level(
    urls: Iterable[str], depth: int, scope: Scope, taken: PageCounts, more: PageCounts
) -> Iterator[tuple[str, ExclusionReason | None]]:
    """Decide on the pages at one distance, which are canonical and new: each with why it is left out, None if it stays.

    `more` is what was taken beside `taken`, and grows by those that stay.
    """
    for url in sorted(set(urls)):
        left = _left(url, depth, scope, taken, more)
        if left is None:
            more.add(url)
        yield url, left


def _left(url: str, depth: int, scope: Scope, taken: PageCounts, more: PageCounts) -> ExclusionReason | None:
    if not url.startswith(scope.prefixes):
        return ExclusionReason.ELSEWHERE
    if scope.without and url.startswith(scope.without):
        return ExclusionReason.EXCLUDED
    if depth > scope.depth:
        return ExclusionReason.TOO_DEEP
    alike = taken.alike(url) + more.alike(url)
    if circles(url, segments=scope.segments, parameters=scope.parameters) or alike >= scope.alike:
        return ExclusionReason.TRAP
    of_host = taken.of_host(url) + more.of_host(url)
    if taken.pages + more.pages >= scope.pages or of_host >= scope.pages_of_host:
        return ExclusionReason.LIMIT
    return None


def circles(url: str, *, segments: int, parameters: int) -> bool:
    """True if a path is so long, or repeats itself so often, that links must have led in circles."""
    path, _, query = url.removeprefix(host_of(url)).partition("?")
    parts = [each for each in path.split("/") if each]
    if len(parts) > segments or (query and query.count("&") >= parameters):
        return True
    if parts and max(Counter(parts).values()) > 3:
        return True
    return any(
        parts[at : at + size] == parts[at + size : at + 2 * size] == parts[at + 2 * size : at + 3 * size]
        for size in range(1, len(parts) // 3 + 1)
        for at in range(len(parts) - 3 * size + 1)
    )


def shape(url: str) -> str:
    """A URL without its digits and without the values of its parameters."""
    head, mark, query = url.partition("?")
    host = host_of(head)
    names = "&".join(sorted({each.partition("=")[0] for each in query.split("&")}))
    return host + _DIGITS.sub("0", head.removeprefix(host)) + mark + names
