"""Normalisation: one written form of a text.

In this order: lone surrogates become U+FFFD; CR LF and CR become LF; no-break spaces become spaces; control characters
but tab and line feed, byte order marks and soft hyphens go; Unicode NFC; spaces at the end of a line go; more than two
line feeds become two; empty lines at both ends go.  Normalising twice changes nothing, and the kernel (normalisation.c)
gives the same text as Python.  A change here is a new version.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from pathlib import Path

from tutti.native.arrays import np
from tutti.native.native import Kernel, kernel

NORMALISATION_VERSION = 1

_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?")
_GONE = {code: None for code in (*range(0, 9), 11, 12, *range(14, 32), *range(127, 160), 0xFEFF, 0xAD)}
_MAPPED: dict[int, int | None] = {**_GONE, 0xA0: 0x20, 0x202F: 0x20}
_TRAILING = re.compile(r"(?<![ \t])[ \t]++(?=\n|\Z)")  # begins at a run's begin alone: linear in hostile text
_BLANK = re.compile(r"\n{3,}")
_LONG = 30
"""Maximum number of combining characters in a row: few texts have so many on one letter."""
_COMBINED = "\u0f73\u0f75\u0f81"
"""Characters of class 0 that are made of combining ones alone."""
_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def normalise(text: str) -> str:
    """The written form of `text`; empty when nothing but space is in it."""
    return normalised(utf8(text))


def utf8(text: str) -> bytes:
    """A text in UTF-8, in which a surrogate may stand alone, as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def normalised(data: bytes) -> str:
    """The written form of a text by its `utf8`."""
    library = native().library
    return written(data.decode("utf-8", "surrogatepass")) if library is None else _by_kernel(library, data)


def written(text: str) -> str:
    """The same by Python alone: the definition that the kernel is held to."""
    text = _SURROGATES.sub("\ufffd", text)
    text = _LINE_ENDS.sub("\n", text).translate(_MAPPED)
    text = composed(text)
    text = _BLANK.sub("\n\n", _TRAILING.sub("", text))
    return text.strip("\n") if text.strip() else ""


def _by_kernel(library: ctypes.CDLL, data: bytes) -> str:
    buffer, length = np.empty(len(data), np.uint8), ctypes.c_int64()
    place = ctypes.c_void_p(buffer.ctypes.data)
    may_compose = library.normalise(data, ctypes.c_int64(len(data)), place, ctypes.byref(length))
    text = str(buffer[: length.value].data, "utf-8")
    # Composing makes no space, and takes none away, so that it may come last.
    text = composed(text) if may_compose else text
    return "" if text.isspace() else text


def composed(text: str) -> str:
    """Unicode NFC, in time that grows with the text: Python's takes the square of a run of combining characters."""
    return unicodedata.normalize("NFC", _in_order(text))


def _in_order(text: str) -> str:
    """An equivalent text in which each long run of combining characters is in canonical order (Unicode, 3.11)."""
    # Any longer run is at one of the places that are looked at.
    if not any(map(_combines, set(text[_LONG :: _LONG + 1]))):
        return text
    marks = {each: unicodedata.normalize("NFD", each) for each in set(text) if _combines(each)}
    pieces: list[str] = []
    done = 0
    for at in range(_LONG, len(text), _LONG + 1):
        if at < done or text[at] not in marks:
            continue
        begin = end = at
        while begin > done and text[begin - 1] in marks:
            begin -= 1
        while end < len(text) and text[end] in marks:
            end += 1
        if end - begin > _LONG:
            run = "".join(map(marks.__getitem__, text[begin:end]))
            pieces += text[done:begin], "".join(sorted(run, key=unicodedata.combining))
            done = end
    return "".join([*pieces, text[done:]])


def _combines(character: str) -> bool:
    return unicodedata.combining(character) != 0 or character in _COMBINED


def normalise_title(title: str) -> str:
    """A title on one line, of at most 300 characters."""
    # Nothing but composing changes what is printable, and no space of a printable text is another than U+0020.
    text = composed(title) if title.isprintable() else normalise(title)
    return " ".join(text.split())[:300]
