"""Character sets: the labels that pages declare, and what is guessed of bytes that no declaration explains.

Promises: names are those of the WHATWG encoding standard; what they stand for is what browsers make of them, so that
`shift_jis` has the characters that Windows added to it; the same bytes are always guessed to be the same.
"""

from __future__ import annotations

import re

import webencodings
from resiliparse.parse.encoding import EncodingDetector

from tutti.ingest.encoding.japanese import euc_jp, iso_2022_jp

MULTIBYTE = frozenset(("shift_jis", "euc-jp", "iso-2022-jp", "gb18030", "big5", "euc-kr"))
_GUESSED_BYTES = 16 << 10
_MARKUP = re.compile(rb"<[^<>]*>")
_NOT_ASCII = re.compile(rb"[\x1b\x80-\xff]")
_ASCII = bytes(range(128))
_LEAST_LATIN = 0.01
"""Share of non-ASCII bytes in a text from which on a guess among Latin sets is trusted."""

# Browsers read GBK as GB18030, and a page that declares x-user-defined as windows-1252 (HTML standard, 13.2.3.2).
_READ_AS = {"gbk": "gb18030", "x-user-defined": "windows-1252"}
_REFUSED = frozenset(("replacement", "utf-16le", "utf-16be"))
"""Sets that browsers refuse, and those that a byte order mark or zeros show."""
_CODECS = {
    "shift_jis": "cp932", "euc-kr": "cp949", "big5": "big5hkscs", "windows-874": "cp874", "iso-8859-8-i": "iso-8859-8",
    "macintosh": "mac_roman", "x-mac-cyrillic": "mac_cyrillic",
}  # fmt: skip


def _koi8_u(data: bytes) -> str:
    """With the two letters of Belarusian."""
    return data.decode("koi8-u").replace("\u255d", "\u045e").replace("\u256c", "\u040e")


_OURS = {"euc-jp": euc_jp, "iso-2022-jp": iso_2022_jp, "koi8-u": _koi8_u}

# What the detector calls them. What is not here it sees in pages that are something else.
_SCRIPTS = {
    "koi8-r": "koi8-r", "cp1251": "windows-1251", "mac-cyrillic": "windows-1251", "iso8859-5": "iso-8859-5",
    "cp866": "ibm866", "cp1253": "windows-1253", "iso8859-7": "iso-8859-7", "cp1255": "windows-1255",
    "iso8859-8": "windows-1255", "cp1256": "windows-1256", "iso8859-6": "iso-8859-6", "tis-620": "windows-874",
    "shift_jis": "shift_jis", "euc_jp": "euc-jp", "iso2022_jp": "iso-2022-jp", "gb18030": "gb18030", "big5": "big5",
    "cp949": "euc-kr",
}  # fmt: skip
_LATIN = {
    "cp1250": "windows-1250", "iso8859-2": "iso-8859-2", "iso8859-16": "windows-1250", "cp1254": "windows-1254",
    "iso8859-9": "windows-1254", "cp1257": "windows-1257", "iso8859-13": "windows-1257", "cp1258": "windows-1258",
}  # fmt: skip
_CONTROLS = re.compile(rb"[\x80-\x9f]")
# Bytes that mean letters or quotation marks in the wider set, and nothing that a page would have in the narrower one.
_WIDER = {
    "iso-8859-2": (_CONTROLS, "windows-1250"),
    "iso-8859-6": (_CONTROLS, "windows-1256"),
    "iso-8859-7": (_CONTROLS, "windows-1253"),
    "koi8-r": (re.compile(rb"[\xa4\xa6\xa7\xad\xb4\xb6\xb7\xbd]"), "koi8-u"),
}


def named(label: str) -> str | None:
    """The character set that is meant by a label, None where nobody knows it."""
    found = webencodings.lookup(label.strip(" \t\n\f\r\"'"))
    name = _READ_AS.get(found.name, found.name) if found else None
    return None if name in _REFUSED else name


def characters(data: bytes, charset: str) -> tuple[str, int]:
    """The text of bytes in a character set, and the number of invalid ones that became U+FFFD."""
    if charset in _OURS:
        text = _OURS[charset](data)
        return text, text.count("\ufffd")
    codec = _CODECS.get(charset, charset)
    try:
        return data.decode(codec), 0
    except UnicodeDecodeError:
        text = data.decode(codec, "replace")
        return text, text.count("\ufffd")


def guessed(data: bytes) -> str | None:
    """The character set that bytes look like; None where it is windows-1252, or nothing that can be told."""
    found = _NOT_ASCII.search(data)
    if found is None:
        return None
    # A sample begins with a character, never within one.
    sample = _MARKUP.sub(b" ", data[found.start() : found.start() + _GUESSED_BYTES])
    detector = EncodingDetector()
    detector.update(sample)
    seen = detector.encoding(html5_compatible=False) or ""
    name = _SCRIPTS.get(seen)
    if name is None and len(sample.translate(None, _ASCII)) >= _LEAST_LATIN * len(sample):
        name = _LATIN.get(seen)
    if name in _WIDER and _WIDER[name][0].search(data):
        name = _WIDER[name][1]
    return name
