"""Sorts of elements by their tags and names, as the kernel tells them."""

from __future__ import annotations

import re

from tutti.ingest.reading.markupkinds import (
    LONGEST_WORD,
    WORDS,
    Kind,
    Mode,
    Sort,
)
from tutti.ingest.reading.markuptags import SPACES, Tag

_WORD = re.compile(rb"[A-Z]*[a-z]+|[A-Z]+")


_HIDES = re.compile(rb"(?:^|;)(?:display:none|visibility:hidden)")


NO_SORT = Sort(0)


def sort_of(tag: Tag, mode: Mode) -> Sort:
    """The sort of an element by its attributes and its name."""
    is_main, kind = mode is Mode.MAIN, tag.kind
    sort = _sort_of_names(tag.value("class"))
    if is_main:
        sort |= _sort_of_names(tag.value("role"))
        if Kind.SLUG not in kind and tag.value("class").lower() != b"section":
            sort |= _sort_of_names(tag.value("id"))
    else:
        sort &= Sort.JAX
    is_unread = tag.value("aria-hidden").lower() == b"true" and (is_main or Kind.INLINE in kind)
    is_hidden = "hidden" in tag.has and tag.value("hidden").lower() != b"until-found"
    style = tag.value("style").translate(None, SPACES).lower()
    if is_unread or is_hidden or _HIDES.search(style):
        sort |= Sort.GONE
    if is_main and Kind.BESIDE in kind:
        sort |= Sort.BOX
    if is_main and Kind.SIDE in kind:
        sort |= Sort.BOX if Sort.POOR in sort else Sort.ASIDE
    return sort


def _sort_of_names(names: bytes) -> Sort:
    """The sorts of the words of names: they end at what is no letter, and before a capital behind a small letter."""
    sort = NO_SORT
    for name in re.split(b"[\t\n\f\r ]", names):
        of_name = NO_SORT
        for word in _WORD.findall(name):
            of_name |= WORDS.get(word.lower().decode(), NO_SORT)
        if Sort.LAYOUT not in of_name:
            sort |= of_name
    return sort


def is_word(superscript: bytes) -> bool:
    """True if a superscript needs no sign: it is empty, or a word as in 19th."""
    word = superscript[1:]
    return superscript == b"^" or (1 < len(word) <= LONGEST_WORD and word.isalpha())


def attribute_values(tag: Tag, names: tuple[str, ...]) -> bytes:
    return b"".join(_attribute(name, *tag.has[name]) for name in names if name in tag.has)


def _attribute(name: str, value: bytes, quote: bytes) -> bytes:
    return b" " + name.encode() + (b"=" + quote + value + quote if value else b"")
