"""Electronic mail addresses, as they are written in practice: a dot-atom of ASCII and a domain (RFC 5321, 4.1.2).

A domain may have letters of any script, as they are or encoded (RFC 5891). Those that are reserved for documentation
and tests (RFC 2606, RFC 6761) are nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tutti.ingest.quality.findings import Finding, Kind, Window

LOCAL = 64  # characters before the @
DOMAIN = 253
LABEL = 63
RESERVED = ("example", "example.com", "example.net", "example.org", "test", "invalid", "localhost", "local")

_DOMAIN = re.compile(r"(?:[^\W_]|[.\-]){1,253}+")
_ASCII_TOP = re.compile(r"[A-Za-z]{2,63}+(?=[^\x00-\x7f])")
PATTERNS = (_DOMAIN, _ASCII_TOP)
_LOCAL_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-")


def windows(text: str) -> Iterator[Window]:
    """Around every @, up to its neighbours: a character lies in two of them at most."""
    before, at = -1, text.find("@")
    while at >= 0:
        after = text.find("@", at + 1)
        limit = len(text) if after < 0 else after
        yield Window(max(before + 1, at - LOCAL - 1), min(limit, at + 1 + DOMAIN + 1), at)
        before, at = at, after


def find(text: str) -> Iterator[Finding]:
    """The addresses of a text, in its order."""
    for window in windows(text):
        begin = window.at
        while begin > window.begin and text[begin - 1] in _LOCAL_CHARACTERS:
            begin -= 1
        if window.at - begin > LOCAL:
            continue
        while begin < window.at and not text[begin].isalnum():
            begin += 1
        domain = _DOMAIN.match(text, window.at + 1, window.end)
        if domain is None or begin == window.at or text[window.at - 1] == ".":
            continue
        if name := _host(domain[0]):
            yield Finding(begin, window.at + 1 + len(name), Kind.EMAIL)


def _host(written: str) -> str:
    """The longest beginning that is the name of a host below a top-level domain; empty when there is none."""
    labels = written.rstrip(".-").split(".")
    good = 0
    while good < len(labels) and _is_label(labels[good]):
        good += 1
    for last in range(min(good, len(labels) - 1), 0, -1):
        if top := _top(labels[last]):
            name = ".".join([*labels[:last], top])
            reserved = any(name.lower() == each or name.lower().endswith(f".{each}") for each in RESERVED)
            return "" if reserved else name
    return ""


def _top(label: str) -> str:
    """The top-level domain that a label is, or begins with: text may follow one of ASCII without a space."""
    if (ascii_top := _ASCII_TOP.match(label)) is not None:
        return ascii_top[0]
    encoded = label[:4].lower() == "xn--"
    return label if _is_label(label) and len(label) > 1 and (label.isalpha() or encoded) else ""


def _is_label(label: str) -> bool:
    return 0 < len(label) <= LABEL and label[0] != "-" and label[-1] != "-"
