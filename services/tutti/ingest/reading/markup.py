"""Markup: a page rewritten before it is parsed, so that parsing and extraction take time in proportion to it.

The tags of the result are well nested, so that a parser neither moves elements nor opens them again, and at most
MAX_DEPTH elements are open at once. It has no comments, scripts, styles, pictures and fields of forms, no attributes
that nobody reads, and no element that only formats its text. Elements end where the HTML standard (13.2.6.4, tree
construction) ends them, but formatting is not opened again. Hidden text is left out; a formula is its source in LaTeX,
where the page has it; a superscript begins with ^, unless it is a word (19th) or a link.

For main content, what remains is the block that has nearly all of the prose, and the prose and headings in front of it.
Left out are elements whose class, id or role has a word of boilerplate (WORDS in markupkinds.py), lists of links, and
teasers; but no element with most of the page's prose, nor those with prose if all of it is in them (a thread of posts).

The kernel (markup.c) writes what Python writes.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from pathlib import Path

from tutti.ingest.reading.markupkinds import (
    KINDS,
    LONGEST,
    MAX_DEPTH,
    MOST_BLOCKS,
    READ,
    WORDS,
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
    out, found = np.empty(5 * len(page) + 64, np.uint8), (ctypes.c_int64 * 7)()
    names, attributes, words = _tables(mode)
    most = min(MOST_BLOCKS, len(page) // 3 + 1)
    blocks = np.empty(6 * most, np.int64)
    library.markup(
        page, ctypes.c_int64(len(page)), ctypes.c_int64(mode), names, ctypes.c_int64(len(KINDS) + 1), attributes, words,
        ctypes.c_int64(len(WORDS) + 1), ctypes.c_int64(MAX_DEPTH), ctypes.c_int64(LONGEST[mode]),
        ctypes.c_int64(most),         ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(blocks.ctypes.data), found,
    )  # fmt: skip
    length, begin, end, tags, levels, cost, too_deep = found
    return Markup(out[:length].tobytes(), title_of(page[begin:end]), tags, levels, cost, bool(too_deep))


@cache
def _tables(mode: Mode) -> tuple[bytes, bytes, bytes]:
    names, words = (
        b"".join(struct.pack("=16sQ", name.encode(), int(kind)) for name, kind in [("", 0), *table.items()])
        for table in (KINDS, WORDS)
    )
    attributes = b"".join(struct.pack("=20s", name.encode()) for name in (*READ[mode], ""))
    return names, attributes, words
