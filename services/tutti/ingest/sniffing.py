"""Sniffing: what a page is, from its bytes, and the characters that they stand for.

A name is a hint between text and Markdown and nothing else.  The character set is the byte order mark's, else the one
that came with the page (in a header), else the one that HTML declares, else UTF-8, else windows-1252; how many
characters had to be replaced is part of the answer.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from tutti.corpus.documents import MediaType
from tutti.ingest.census import Census, census

MAX_REPLACED_SHARE = 0.1
TEXTS = ("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "")
"""Content types of answers that are read as pages; an empty one says nothing."""
_HEAD = 1024
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SIGNATURES = (
    b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"MZ\x90", b"BZh",
    b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"OggS", b"RIFF", b"ID3", b"7z\xbc\xaf", b"Rar!", b"SQLite format 3",
)  # fmt: skip
_MAX_CONTROL_SHARE = 0.02
_HTML = re.compile(
    rb"(?>\s+|<!--.*?-->|<\?xml[^>]*>)*+"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|table|div|h1|p|a|br|font|iframe|b|article|main)[\s>/]",
    re.IGNORECASE | re.DOTALL,
)
_DECLARED = re.compile(rb"<meta[^>]*?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.\-]{1,40})", re.IGNORECASE)
_MARKDOWN_NAMES = (".md", ".markdown", ".mdown")
# The WHATWG encoding standard's labels that pages use; anything else is decoded as if nothing had been declared.
_LABELS = {
    **dict.fromkeys(("utf-8", "utf8", "unicode-1-1-utf-8", "utf-16", "utf-16le", "utf-16be"), "utf-8"),
    **dict.fromkeys(
        ("ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin1", "l1", "windows-1252", "cp1252"), "windows-1252"
    ),
    **{f"iso-8859-{k}": f"iso-8859-{k}" for k in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-125{k}": f"windows-125{k}" for k in (0, 1, 3, 4, 5, 6, 7, 8)},
    **{name: name for name in ("koi8-r", "koi8-u", "big5", "euc-jp", "euc-kr", "shift_jis", "iso-2022-jp", "gb18030")},
    **dict.fromkeys(("gbk", "gb2312"), "gb18030"),
    "iso-8859-9": "windows-1254",
}


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a page; `charset` is what it was decoded as, `replaced` how many characters became U+FFFD."""

    text: str
    charset: str
    replaced: int

    @property
    def unreadable(self) -> bool:
        """Whether so much was replaced that the character set must be wrong."""
        return self.replaced > MAX_REPLACED_SHARE * len(self.text)


def is_binary(data: bytes, seen: Census | None = None) -> bool:
    """A known signature, a NUL, or many control characters; text in UTF-16 is told by its byte order mark.

    `seen`: its census, if it was taken.
    """
    if data.startswith(_SIGNATURES):
        return True
    if _mark(data)[1].startswith("utf-16"):
        return False
    controls = (seen or census(data)).controls
    return controls > 0 and (b"\0" in data or controls > _MAX_CONTROL_SHARE * len(data))


def media_type(path: str, data: bytes) -> MediaType:
    """HTML by how it begins; Markdown by its name, since any text is valid Markdown."""
    mark, charset = _mark(data)
    head = data[len(mark) : len(mark) + 4 * _HEAD]
    if charset.startswith("utf-16"):
        head = head.decode(charset, "replace").encode()
    if _HTML.match(head):
        return MediaType.HTML
    return MediaType.MARKDOWN if path.lower().endswith(_MARKDOWN_NAMES) else MediaType.PLAIN


def decode(data: bytes, kind: MediaType, charset: str = "") -> Decoded:
    """The characters of a page that is not binary; `charset` came with it."""
    mark, of_mark = _mark(data)
    if mark:
        return _replacing(data[len(mark) :], of_mark)
    declared = _DECLARED.search(data[:_HEAD]) if kind is MediaType.HTML else None
    inside = declared.group(1).decode("ascii").lower() if declared else ""
    label = _LABELS.get(charset.strip().lower()) or _LABELS.get(inside)
    if label is not None:
        return _replacing(data, label)
    try:
        return Decoded(data.decode("utf-8"), "utf-8", 0)
    except UnicodeDecodeError:
        return _replacing(data, "windows-1252")


def _mark(data: bytes) -> tuple[bytes, str]:
    return next(((mark, charset) for mark, charset in _MARKS if data.startswith(mark)), (b"", ""))


def _replacing(data: bytes, charset: str) -> Decoded:
    try:
        return Decoded(data.decode(charset), charset, 0)
    except UnicodeDecodeError:
        text = data.decode(charset, "replace")
        return Decoded(text, charset, text.count("\ufffd"))
