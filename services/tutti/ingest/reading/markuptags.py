"""Tags of HTML, read from bytes as the kernel reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tutti.ingest.reading.markupkinds import (
    KINDS,
    LONGEST,
    NO_KIND,
    READ,
    Kind,
    Mode,
)

SPACES = b"\t\n\f\r "
TOKEN = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))|<(?P<end>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)|<(?:[!?]|/(?=.))[^>]*+>?"
    rb"|(?P<text><|[^<]++)",
    re.DOTALL,
)


_BETWEEN = re.compile(rb"[\t\n\f\r /]*+")


_ATTRIBUTE = re.compile(
    rb"([^\t\n\f\r />][^\t\n\f\r />=]*+)"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^\t\n\f\r >]*+)))?+"
)


@dataclass(slots=True)
class Tag:
    name: bytes
    kind: Kind
    ends: bool
    empty: bool = False
    has: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """The value, and how it is quoted, of attributes that are read."""

    def value(self, name: str) -> bytes:
        return self.has.get(name, (b"", b""))[0]


def read_tag(page: bytes, token: re.Match[bytes], mode: Mode) -> tuple[Tag | None, int]:
    """The tag whose name was matched, and where it ends; none where it has no end."""
    name = token["name"].lower()
    tag = Tag(name, KINDS.get(name.decode("latin-1"), NO_KIND), ends=bool(token["end"]))
    at = token.end()
    while (between := _BETWEEN.match(page, at)) and (at := between.end()) < len(page) and page[at] != ord(">"):
        if found := _ATTRIBUTE.match(page, at):
            at = found.end()
            label = found[1].lower().decode("latin-1")
            which = found.lastindex or 1
            quote = b"\0\0\"'\0"[which : which + 1].strip(b"\0")
            if label in READ[mode]:
                tag.has.setdefault(label, (_cut(found[which] if which > 1 else b"", LONGEST[mode]), quote))
    if at >= len(page):
        return None, at
    tag.empty = bool(between and between[0].endswith(b"/"))
    return tag, at + 1


def _cut(value: bytes, longest: int) -> bytes:
    """At most so many bytes of a value, and no part of a character."""
    if len(value) <= longest:
        return value
    while longest and value[longest] & 0xC0 == 0x80:
        longest -= 1
    return value[:longest]


def raw_end(page: bytes, at: int, name: bytes) -> int:
    """The start of the end tag of an element that contains no tags."""
    comment = inner = False
    marks = re.compile(rb"<!(?=--)|--(?=>)|<(?P<end>/?)" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE)
    for mark in marks.finditer(page, at):
        if mark[0] == b"<!":
            comment = comment or name == b"script"
        elif mark[0] == b"--":
            comment = inner = False
        elif not mark["end"]:
            inner = comment
        elif not inner:
            return mark.start()
        else:
            inner = False
    return len(page)
