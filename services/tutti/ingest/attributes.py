"""Attributes: what those of a page's tags would cost a parser, which compares each with all before it in its tag.

A tag of 100,000 attributes is a megabyte and takes a minute and a half. So tags are counted before a page is parsed, by
the rules of the HTML standard (13.2.5); the kernel (attributes.c) counts what Python counts.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

from tutti.corpus.native import Kernel, kernel

FEW = 64
"""A tag of so many costs no more than what is read of it."""
MOST = 10**8
"""Of the squares of all other numbers; it takes about a quarter of a second."""
LEAST_BYTES = 32 << 10
"""Of a page that may have so many: there are few short names."""

_TAG = re.compile(
    rb"<(?:!--(?:-?>|.*?(?:--!?>|\Z))|(?P<ends>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)|[!?/][^>]*+)", re.DOTALL
)
_BETWEEN = re.compile(rb"[\t\n\f\r /]*+")
_ATTRIBUTE = re.compile(
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]*+))?+",
    re.DOTALL,
)
_RAW = frozenset((b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"))
_FOREIGN = frozenset((b"svg", b"math"))
_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def too_many_attributes(data: bytes) -> bool:
    """Whether the tags of a page in UTF-8 have more attributes than are parsed in little time."""
    return len(data) >= LEAST_BYTES and cost(data) > MOST


def cost(data: bytes) -> int:
    """The sum of the squares of how many attributes each tag of more than FEW has.

    Scripts and the like hold no tags but in pictures (SVG) and formulas: where there are any of those it is the larger
    of the sums with them and without.
    """
    library = native().library
    if library is None:
        return counted(data)
    library.attributes.restype = ctypes.c_int64
    return int(library.attributes(data, ctypes.c_int64(len(data)), ctypes.c_int64(FEW)))


def counted(data: bytes) -> int:
    """The same by Python alone: the definition that the kernel is held to."""
    tags = list(_tags(data, raw=True))
    others = _tags(data, raw=False) if any(name in _FOREIGN for name, _ in tags) else ()
    return max(sum(number**2 for _, number in found if number > FEW) for found in (tags, others))


def _tags(data: bytes, *, raw: bool) -> Iterator[tuple[bytes, int]]:
    """The name of each tag, and how many attributes it has; `raw`: scripts and the like hold none."""
    at = 0
    while tag := _TAG.search(data, at):
        at, number = tag.end(), 0
        if tag["name"] is None:
            continue
        while (found := _BETWEEN.match(data, at)) and (found.end() < len(data) and data[found.end()] != ord(">")):
            attribute = _ATTRIBUTE.match(data, found.end())
            at, number = attribute.end() if attribute else len(data), number + 1
        at = min(len(data), (found.end() if found else at) + 1)
        name = tag["name"].lower()
        yield name if tag.end() < len(data) else b"", number
        if raw and name in _RAW and not tag["ends"] and tag.end() < len(data):
            end = re.compile(rb"</" + name + rb"[\t\n\f\r />]", re.IGNORECASE).search(data, at)
            at = end.start() if end else len(data)
