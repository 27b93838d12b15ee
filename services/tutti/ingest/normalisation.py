"""Normalisation: one written form of a text.

In this order: lone surrogates become U+FFFD; CR LF and CR become LF; no-break spaces become spaces; control characters
but tab and line feed, byte order marks and soft hyphens go; Unicode NFC; spaces at the end of a line go; more than two
line feeds become two; empty lines at both ends go.  Normalising twice changes nothing.  A change here is a new version.
"""

from __future__ import annotations

import re
import unicodedata

NORMALISATION_VERSION = 1

_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?")
_GONE = {code: None for code in (*range(0, 9), 11, 12, *range(14, 32), *range(127, 160), 0xFEFF, 0xAD)}
_MAPPED: dict[int, int | None] = {**_GONE, 0xA0: 0x20, 0x202F: 0x20}
_TRAILING = re.compile(r"(?<![ \t])[ \t]++(?=\n|\Z)")  # begins at a run's begin alone: linear in hostile text
_BLANK = re.compile(r"\n{3,}")


def normalise(text: str) -> str:
    """The written form of `text`; empty when nothing but space is in it."""
    text = _SURROGATES.sub("\ufffd", text)
    text = _LINE_ENDS.sub("\n", text).translate(_MAPPED)
    text = unicodedata.normalize("NFC", text)
    text = _BLANK.sub("\n\n", _TRAILING.sub("", text))
    return text.strip("\n") if text.strip() else ""


def normalise_title(title: str) -> str:
    """A title on one line, of at most 300 characters."""
    return " ".join(normalise(title).split())[:300]
