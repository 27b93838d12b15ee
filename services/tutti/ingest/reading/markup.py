"""Markup: a page rewritten before it is parsed, so that parsing and extraction take time in proportion to it.

The tags of the result are well nested, so that a parser neither moves elements nor opens them again, and at most
MAX_DEPTH elements are open at once. It has no comments, scripts, styles, pictures and fields of forms, no attributes
that nobody reads, and no element that only formats its text. For main content, navigation and boilerplate are left out
too. Elements end where the HTML standard (13.2.6.4, tree construction) ends them, but formatting is not opened again.

The kernel (markup.c) writes what Python writes.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from pathlib import Path

from tutti.ingest.reading.markupkinds import (
    BOXES,
    KINDS,
    LONGEST,
    MAX_DEPTH,
    NO_KIND,
    POOR,
    READ,
    Markup,
    Mode,
    title_of,
)
from tutti.ingest.reading.markuptwin import written
from tutti.native.arrays import np
from tutti.native.native import Kernel, kernel

_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def rewritten(page: bytes, mode: Mode) -> Markup:
    """Return the page, which is UTF-8, as it is to be parsed."""
    library = native().library
    if library is None:
        return written(page, mode)
    out, found = np.empty(4 * len(page) + 64, np.uint8), (ctypes.c_int64 * 7)()
    names, attributes, boxes, poor = _tables(mode)
    spans, marks = (np.empty(2 * (len(page) // 3 + 1), np.int64) for _ in range(2))
    library.markup(
        page, ctypes.c_int64(len(page)), ctypes.c_int64(mode), names, ctypes.c_int64(len(KINDS) + 1), attributes, boxes,
        poor, ctypes.c_int64(MAX_DEPTH), ctypes.c_int64(LONGEST[mode]),
        *(ctypes.c_void_p(each.ctypes.data) for each in (out, spans, marks)), found,
    )  # fmt: skip
    length, begin, end, tags, levels, cost, too_deep = found
    return Markup(out[:length].tobytes(), title_of(page[begin:end]), tags, levels, cost, bool(too_deep))


@cache
def _tables(mode: Mode) -> tuple[bytes, bytes, bytes, bytes]:
    names = b"".join(struct.pack("=12sI", name.encode(), int(kind)) for name, kind in [("", NO_KIND), *KINDS.items()])
    attributes = b"".join(struct.pack("=20s", name.encode()) for name in (*READ[mode], ""))
    boxes, poor = (b"".join(part.encode() + b"\0" for part in (*parts, "")) for parts in (BOXES, POOR))
    return names, attributes, boxes, poor
