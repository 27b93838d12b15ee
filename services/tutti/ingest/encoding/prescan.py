"""Prescan: the character set that a page of HTML declares, as browsers look for it before they parse (HTML standard,
13.2.3.2).

A `<meta>` declares one by `charset`, or in `content` beside `http-equiv=content-type`. Of several the first counts
whose label is known; what stands in a comment, or within quotes of another tag, declares none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tutti.ingest.encoding.charsets import named

_HEAD = 1024
_TAG = re.compile(
    rb"<(?:!(?=--)(?:.*?-->|.*)|(?P<meta>meta)(?=[\t\n\f\r /])|(?P<other>/?[a-z][^\t\n\f\r >]*+)|[!/?][^>]*+)",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*+([^\t\n\f\r />][^\t\n\f\r />=]*+)"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^\t\n\f\r >]*+)))?+"
)
_WITHIN = re.compile(
    rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r ;\"'][^\t\n\f\r ;]*))", re.IGNORECASE
)


def declared(data: bytes) -> str | None:
    """The name of a character set that is known; None where a page declares none where browsers look for it."""
    head = data[:_HEAD]
    if b"charset" not in head.lower():
        return None
    return next((name for label in _labels(head) if (name := named(label.decode("latin-1")))), None)


def _labels(head: bytes) -> Iterator[bytes]:
    at = 0
    while tag := _TAG.search(head, at):
        at, has = tag.end(), dict[bytes, bytes]()
        while tag.lastgroup and (attribute := _ATTRIBUTE.match(head, at)):
            at = attribute.end()
            has.setdefault(attribute[1].lower(), attribute[2] or attribute[3] or attribute[4] or b"")
        if tag["meta"] and (label := _label(has)):
            yield label


def _label(meta: dict[bytes, bytes]) -> bytes | None:
    if b"charset" in meta:
        return meta[b"charset"]
    if meta.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    within = _WITHIN.search(meta.get(b"content", b""))
    return within[within.lastindex or 0] if within else None
