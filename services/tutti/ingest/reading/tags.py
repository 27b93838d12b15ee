"""Tags: what those of a page would cost a parser that takes them as they come.

It compares each attribute with all before it in its tag: a tag of 100,000 is a megabyte and takes a minute and a half.
Those of a later `<body>`, or `<html>`, go to the first, and are compared with all that it has.  And it rebuilds
formatting elements that are left open.  So tags are counted before a page is parsed, by the rules of the HTML standard
(13.2.5); the kernel (tags.c) counts what Python counts.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tutti.ingest.reading.formatting import Formatting
from tutti.native.native import Kernel, kernel

FEW = 64
"""A tag of so many attributes costs no more than what is read of it."""
MOST = 10**8
"""Of the squares of all other numbers; it takes about a quarter of a second."""
LIGHT = 8
"""So much formatting, rebuilt at a tag, costs no more than a few tags."""
MOST_REBUILT = 10**6
"""Of all that is more; an element takes up to 400 bytes, and an attribute 150."""
AGAIN, ENDLESS = 64, 2**60
"""So many times a page is read where tags cannot be told; more is as if there were no end."""
LEAST_BYTES = 4 << 10
"""Of a page that may have so many attributes, or so much to rebuild: there are few short names."""

_TAG = re.compile(
    rb"<(?:!--(?:-?>|.*?(?:--!?>|\Z))|(?P<ends>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)|(?P<bogus>[!?/][^>]*+))", re.DOTALL
)
_BEGIN = re.compile(rb"<(?P<ends>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)")
_BETWEEN = re.compile(rb"[\t\n\f\r /]*+")
_ATTRIBUTE = re.compile(
    rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]*+))?+",
    re.DOTALL,
)
_OVERHEARD = re.compile(rb"<([a-zA-Z][^\t\n\f\r /><]*+)([^<>]*+)")
_WORDS = re.compile(rb"[\t\n\f\r /]")
_RAW = frozenset((b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"))
_SCRIPT = re.compile(rb"<script[\t\n\f\r />]", re.IGNORECASE)
_FOREIGN = frozenset((b"svg", b"math"))
_MERGED = frozenset((b"body", b"html"))
_SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True)
class Costs:
    """`attributes`: the sum of the squares of how many each tag of more than FEW has, and of a repeated body or html
    twice its number times what those before it brought; `rebuilt`: see Formatting.
    """

    attributes: int
    rebuilt: int


class _Tag(NamedTuple):
    """`rest`: what stands behind its name; `number`: how many attributes it has."""

    begin: int
    name: bytes
    rest: bytes
    number: int
    ends: bool


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def too_dear(data: bytes) -> str:
    """Why a page in UTF-8 would take a parser too much time or memory; empty where it would not."""
    if len(data) < LEAST_BYTES:
        return ""
    found = costs(data)
    if found.attributes > MOST:
        return "tags have more attributes than are parsed in little time"
    if found.rebuilt > MOST_REBUILT:
        return "formatting that is left open would be rebuilt more often than memory is for"
    return ""


def costs(data: bytes) -> Costs:
    """What the tags of a page cost.

    Scripts and the like hold no tags but in pictures (SVG) and formulas: where there are any of those, of attributes it
    is the larger of the sums with them and without.
    """
    library = native().library
    if library is None:
        return counted(data)
    found = (ctypes.c_int64 * 2)()
    bounds = (ctypes.c_int64(each) for each in (len(data), FEW, LIGHT, MOST_REBUILT))
    library.tags(data, *bounds, found)
    return Costs(*found)


def counted(data: bytes) -> Costs:
    """The same by Python alone: the definition that the kernel is held to."""
    formatting = Formatting(LIGHT, MOST_REBUILT)
    tags = list(_tags(data, formatting))
    others = list(_tags(data)) if any(each.name in _FOREIGN for each in tags) else []
    found = [_compared(tags), _compared(others)]
    if formatting.lost_at is not None:
        heard = _heard(data, formatting.lost_at)
        before = [each for each in tags if each.begin < formatting.lost_at]
        found.append(ENDLESS if heard is None else _compared([*before, *heard]))
    return Costs(max(found), formatting.rebuilt)


def _compared(tags: list[_Tag]) -> int:
    alone = sum(each.number**2 for each in tags if each.number > FEW)
    return alone + sum(_merged([each for each in tags if each.name == name and not each.ends]) for name in _MERGED)


def _merged(tags: list[_Tag]) -> int:
    """As if all were one tag; one that is the same as that before it brings nothing new."""
    cost = held = 0
    for before, each in zip([None, *tags], tags, strict=False):
        cost += 2 * held * each.number
        held += each.number if before is None or each.rest != before.rest else 0
    return cost


def _tags(data: bytes, formatting: Formatting | None = None) -> Iterator[_Tag]:
    """The tags of a page. With `formatting` scripts and the like hold none."""
    at, told = 0, formatting
    while tag := _TAG.search(data, at):
        if told and told.lost:
            told.lost_at = tag.start()
            _overhear(told, data[tag.start() :])
            told = None
        at = tag.end()
        if tag["name"] is None:
            if told and told.doubtful and (tag["bogus"] or b"").startswith(b"![CDATA["):
                told.lost = True
            continue
        made, empty = _read(data, tag)
        at, name = made.begin + len(tag[0]) + len(made.rest), made.name
        if told and name:
            told.tag(name, made.rest, made.number, ends=made.ends, empty=empty)
        yield made
        if formatting and name in _RAW and not tag["ends"]:
            end = re.compile(rb"</" + name + rb"[\t\n\f\r />]", re.IGNORECASE).search(data, at)
            text, at = data[at : end.start() if end else len(data)], end.start() if end else len(data)
            if told and told.doubtful and _overhear(told, text):
                told.lost = True
            # In a comment of a script stands another: it does not end where it seems to.
            if told and name == b"script" and _SCRIPT.search(text.partition(b"<!--")[2]):
                told.lost = True


def _read(data: bytes, tag: re.Match[bytes]) -> tuple[_Tag, bool]:
    """The tag whose name was matched, and whether it closes itself."""
    at, number = tag.end(), 0
    while (found := _BETWEEN.match(data, at)) and (found.end() < len(data) and data[found.end()] != ord(">")):
        attribute = _ATTRIBUTE.match(data, found.end())
        at, number = attribute.end() if attribute else len(data), number + 1
    empty = bool(found and found[0].endswith(b"/") and found.end() < len(data))
    at = min(len(data), (found.end() if found else at) + 1)
    name = tag["name"].lower() if tag.end() < len(data) else b""
    return _Tag(tag.start(), name, data[tag.end() : at], number, ends=bool(tag["ends"])), empty


def _heard(data: bytes, begin: int) -> list[_Tag] | None:
    """Whatever may be a tag, each read by itself, where nobody can tell where they begin; None for too much of it."""
    found, left, at = list[_Tag](), AGAIN * len(data), begin
    while tag := _BEGIN.search(data, at):
        made, _ = _read(data, tag)
        left -= len(tag[0]) + len(made.rest)
        if left < 0:
            return None
        found.append(made)
        at = tag.start() + 1
    return found


def _overhear(formatting: Formatting, text: bytes) -> bool:
    """Count what may open something, in comments and between quotes too. Whether one may hide what is behind."""
    hides = False
    for tag in _OVERHEARD.finditer(text):
        name = tag[1].lower() if _is_ended(text, tag.end(1)) else b""
        formatting.tag(name, tag[2], len(_WORDS.findall(tag[2])), heard=False)
        hides |= name in _RAW
    return hides


def _is_ended(text: bytes, at: int) -> bool:
    return text[at : at + 1] in (b"\t", b"\n", b"\f", b"\r", b" ", b"/", b">")
