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

from tutti.ingest.crawl.urls import host_of

_DIGITS = re.compile(r"\d+")


class Left(StrEnum):
    """Why a page that was found is not fetched."""

    ELSEWHERE = "elsewhere"  # below none of the prefixes
    EXCLUDED = "excluded"  # below one that is left out
    TOO_DEEP = "too_deep"  # more links away from every seed
    TRAP = "trap"  # a path that goes in circles, or one of too many alike
    LIMIT = "limit"  # the crawl, or its host, has as many pages as it may


@dataclass(frozen=True, slots=True)
class Scope:
    """What a crawl may fetch. `prefixes` and `without` are beginnings of canonical URLs.

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
class Taken:
    """How many pages were taken already: in all, by host, by shape."""

    pages: int = 0
    hosts: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)

    def add(self, url: str) -> None:
        self.pages += 1
        self.hosts[host_of(url)] += 1
        self.shapes[shape(url)] += 1

    def grow(self, more: Taken) -> None:
        """By what was taken since."""
        self.pages += more.pages
        self.hosts.update(more.hosts)
        self.shapes.update(more.shapes)


def level(
    urls: Iterable[str], depth: int, scope: Scope, taken: Taken, more: Taken
) -> Iterator[tuple[str, Left | None]]:
    """Decide on the pages at one distance, which are canonical and new: each with why it is left out, None if it stays.

    `more` is what was taken beside `taken`, and grows by those that stay.
    """
    for url in sorted(set(urls)):
        left = _left(url, depth, scope, taken, more)
        if left is None:
            more.add(url)
        yield url, left


def _left(url: str, depth: int, scope: Scope, taken: Taken, more: Taken) -> Left | None:
    if not url.startswith(scope.prefixes):
        return Left.ELSEWHERE
    if scope.without and url.startswith(scope.without):
        return Left.EXCLUDED
    if depth > scope.depth:
        return Left.TOO_DEEP
    form, host = shape(url), host_of(url)
    alike = taken.shapes[form] + more.shapes[form]
    if circles(url, segments=scope.segments, parameters=scope.parameters) or alike >= scope.alike:
        return Left.TRAP
    of_host = taken.hosts[host] + more.hosts[host]
    if taken.pages + more.pages >= scope.pages or of_host >= scope.pages_of_host:
        return Left.LIMIT
    return None


def circles(url: str, *, segments: int, parameters: int) -> bool:
    """Whether a path is so long, or repeats itself so, that links must have led in circles."""
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
