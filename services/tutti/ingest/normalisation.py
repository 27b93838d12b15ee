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

import numpy as np

from tutti.corpus.native import Kernel, kernel

NORMALISATION_VERSION = 1

_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?")
_GONE = {code: None for code in (*range(0, 9), 11, 12, *range(14, 32), *range(127, 160), 0xFEFF, 0xAD)}
_MAPPED: dict[int, int | None] = {**_GONE, 0xA0: 0x20, 0x202F: 0x20}
_TRAILING = re.compile(r"(?<![ \t])[ \t]++(?=\n|\Z)")  # begins at a run's begin alone: linear in hostile text
_BLANK = re.compile(r"\n{3,}")
_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def normalise(text: str) -> str:
    """The written form of `text`; empty when nothing but space is in it."""
    library = native().library
    return written(text) if library is None else _by_kernel(library, text)


def written(text: str) -> str:
    """The same by Python alone: the definition that the kernel is held to."""
    text = _SURROGATES.sub("\ufffd", text)
    text = _LINE_ENDS.sub("\n", text).translate(_MAPPED)
    text = unicodedata.normalize("NFC", text)
    text = _BLANK.sub("\n\n", _TRAILING.sub("", text))
    return text.strip("\n") if text.strip() else ""


def _by_kernel(library: ctypes.CDLL, text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    buffer, length = np.empty(len(data), np.uint8), ctypes.c_int64()
    place = ctypes.c_void_p(buffer.ctypes.data)
    may_compose = library.normalise(data, ctypes.c_int64(len(data)), place, ctypes.byref(length))
    text = str(buffer[: length.value].data, "utf-8")
    # Composing makes no space, and takes none away, so that it may come last.
    text = unicodedata.normalize("NFC", text) if may_compose else text
    return "" if text.isspace() else text


def normalise_title(title: str) -> str:
    """A title on one line, of at most 300 characters."""
    # Nothing but composing changes what is printable, and no space of a printable text is another than U+0020.
    text = unicodedata.normalize("NFC", title) if title.isprintable() else normalise(title)
    return " ".join(text.split())[:300]
