"""Sniffing: what a page is, from its bytes, and the characters that they stand for.

HTML is what was declared as that, what begins as that, and, where nothing was declared, what is named so.  The
character set is the byte order mark's, else UTF-8 where the bytes are (but for few faults), whatever was declared, else
the one that came with the page (in a header), else the one that HTML declares, else the one that the bytes look like,
else windows-1252: the first by which little has to be replaced; how many characters were is part of the answer.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tutti.corpus.documents.documents import MediaType
from tutti.ingest.encoding.census import controls
from tutti.ingest.encoding.charsets import MULTIBYTE, characters, guessed, named
from tutti.ingest.encoding.prescan import declared

MAX_REPLACED_SHARE = 0.1
_HTML_TYPES = ("text/html", "application/xhtml+xml")
TEXTS = (*_HTML_TYPES, "text/plain", "text/markdown", "")
"""Content types of answers that are read as pages; an empty one says nothing."""
_NO_TYPE = re.compile(r"[^!#$%&'*+.^_`|~0-9a-z/-]")
_WIDE_HEAD = 64 << 10
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SIGNATURES = (
    b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"MZ\x90", b"BZh",
    b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"OggS", b"RIFF", b"ID3", b"7z\xbc\xaf", b"Rar!", b"SQLite format 3",
)  # fmt: skip
_MAX_CONTROL_SHARE = 0.02
_LEADING = rb"(?>\s+|<!--.*?-->|<\?xml[^>]*>)*+"
_DOCUMENT = re.compile(_LEADING + rb"<(?:!doctype\s+html|html|head|body)[\s/>]", re.IGNORECASE | re.DOTALL)
_ELEMENT = re.compile(
    _LEADING + rb"<(?:title|meta|link|base|script|style|noscript|template|header|footer|main|nav|section|article|aside|"
    rb"h[1-6]|div|p|pre|blockquote|center|ul|ol|dl|table|form|fieldset|details|figure|hr|br|a|b|i|em|strong|span|font|"
    rb"img|iframe|svg)[\s/>]",
    re.IGNORECASE | re.DOTALL,
)
_MARKDOWN_NAMES, _HTML_NAMES = (".md", ".markdown", ".mdown"), (".html", ".htm", ".xhtml")
_WIDE = {
    **dict.fromkeys(("utf-16", "csunicode", "iso-10646-ucs-2", "ucs-2", "unicode", "unicodefeff"), ""),
    **{"utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "unicodefffe": "utf-16-be"},
}
_LEAST_BYTES = 16
"""So many bytes that are UTF-8 and not ASCII do not come about by accident in a set of several bytes a character."""


def shown_type(kind: str) -> str:
    """A content type, whoever sent it, as it may be told: of the characters that one can have (RFC 9110, section 8.3.1)
    the first 100.
    """
    return _NO_TYPE.sub("", kind.lower())[:100]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a page; `charset` is what it was decoded as, `replaced` how many characters became U+FFFD."""

    text: str
    charset: str
    replaced: int

    def utf8(self, data: bytes) -> bytes:
        """The text in UTF-8; `data`: the bytes that it was decoded from."""
        return (
            data.removeprefix(codecs.BOM_UTF8) if self.charset == "utf-8" and not self.replaced else self.text.encode()
        )

    @property
    def fits(self) -> bool:
        """True if few of the non-ASCII characters were replaced; most character sets agree on ASCII."""
        if not self.replaced:
            return True
        others = len(self.text) - len(self.text.encode("ascii", "ignore"))
        return self.replaced <= MAX_REPLACED_SHARE * others

    @property
    def unreadable(self) -> bool:
        """True if so much was replaced that the character set must be wrong."""
        return self.replaced > MAX_REPLACED_SHARE * len(self.text)


def is_pdf(data: bytes) -> bool:
    """By how it begins."""
    return data.startswith(b"%PDF-")


def is_binary(data: bytes, charset: str = "") -> bool:
    """A known signature, a NUL, or many control characters; `charset` came with the data.

    Text in UTF-16 is told by its byte order mark, or by what came with it where its characters agree.
    """
    if data.startswith(_SIGNATURES):
        return True
    if _mark(data, charset)[1].startswith("utf-16"):
        return False
    number = controls(data)
    return number > 0 and (b"\0" in data or number > _MAX_CONTROL_SHARE * len(data))


def media_type(path: str, data: bytes, charset: str = "", kind: str = "") -> MediaType:
    """The media type of a page, by its content type (`kind`), then by its beginning, then by its name.

    Markdown often begins with an element of HTML, and any text is valid Markdown: there the name is believed.
    """
    if kind in _HTML_TYPES:
        return MediaType.HTML
    mark, wide = _mark(data, charset)
    text, begin, name = data, len(mark), path.lower()
    if wide.startswith("utf-16"):
        text, begin = data[begin : begin + _WIDE_HEAD].decode(wide, "replace").encode(), 0
    if _DOCUMENT.match(text, begin):
        return MediaType.HTML
    if kind == MediaType.MARKDOWN or name.endswith(_MARKDOWN_NAMES):
        return MediaType.MARKDOWN
    by_name = not kind and name.endswith(_HTML_NAMES)
    return MediaType.HTML if by_name or _ELEMENT.match(text, begin) else MediaType.PLAIN


def decode(data: bytes, kind: MediaType, charset: str = "") -> Decoded:
    """The characters of a page that is not binary; `charset` came with it."""
    mark, of_mark = _mark(data, charset)
    if of_mark:
        return _replacing(data[len(mark) :], of_mark)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        labels = _labels(data, kind, charset)
        # UTF-8 with faults has characters before them; to replace all that is none would take time.
        return _fitting(data, labels if data[: error.start].isascii() else ["utf-8", *labels])
    if len(data) - len(text) >= _LEAST_BYTES:  # nobody writes it by accident
        return Decoded(text, "utf-8", 0)
    labels = _labels(data, kind, charset)
    if not labels and b"\x1b" in data and (found := guessed(data)):
        labels = [found]
    # What is ASCII is as good as what was declared, and little else may be of a set of several bytes.
    if labels and (text.isascii() or labels[0] in MULTIBYTE) and labels[0] != "utf-8":
        return _replacing(data, labels[0])
    return Decoded(text, "utf-8", 0)


def _labels(data: bytes, kind: MediaType, charset: str) -> list[str]:
    """The character sets that are declared: the one that came with a page, then the one that stands in it."""
    return [name for name in (named(charset), declared(data) if kind is MediaType.HTML else None) if name]


def _fitting(data: bytes, labels: list[str]) -> Decoded:
    """By the first that fits of labels, and of what the bytes look like; else by windows-1252."""
    for charset in _candidates(data, labels):
        decoded = _replacing(data, charset)
        if decoded.fits:
            return decoded
    return _replacing(data, "windows-1252")


def _candidates(data: bytes, labels: list[str]) -> Iterator[str]:
    yield from labels
    if found := guessed(data):
        yield found


def _mark(data: bytes, charset: str) -> tuple[bytes, str]:
    """The byte order mark, and what it or a UTF-16 that came with the data says; the latter where it can be."""
    if found := next((pair for pair in _MARKS if data.startswith(pair[0])), None):
        return found
    wide = _WIDE.get(charset.strip().lower()) if charset else None
    if wide == "":
        wide = "utf-16-be" if data.startswith(b"\0") else "utf-16-le"
    return b"", wide if wide and _is_wide(data, wide) else ""


def _is_wide(data: bytes, charset: str) -> bool:
    """True if bytes are text in UTF-16: there are zeros, as in each space and letter of ASCII, and no errors."""
    if b"\0" not in data:
        return False
    try:
        text = data[: len(data) & -2].decode(charset).encode()
    except UnicodeDecodeError:
        return False
    return controls(text) <= _MAX_CONTROL_SHARE * len(text)


def _replacing(data: bytes, charset: str) -> Decoded:
    text, replaced = characters(data, charset)
    return Decoded(text, charset, replaced)
