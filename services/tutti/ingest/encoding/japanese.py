"""Japanese: EUC-JP and ISO-2022-JP as browsers read them (WHATWG encoding standard, 12.1 and 12.2).

Python's codecs are of the national standards: they lack what vendors added to them (circled numbers, Roman numerals,
characters of names), give other characters for a wave dash and five more, and read on within a pair that is none.
"""

from __future__ import annotations

import re
from functools import cache

_BAD = "\ufffd"
_VENDORS = tuple(zip("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2", strict=True))
_TILDE = b"\x8f\xa2\xb7"
"""Python takes it for the one of ASCII."""
_PIECE = re.compile(
    rb"(?P<single>(?:[\0-\x8d\x90-\xa0\xff]++|[\x8e\x8f\xa1-\xfe](?![\x80-\xff]))++)"
    rb"|(?P<two>(?:[\xa1-\xfe]{2})++)|(?P<kana>(?:\x8e[\xa1-\xdf])++)|(?P<three>(?:\x8f[\xa1-\xfe]{2})++)"
    rb"|\x8f[\xa1-\xfe][\x80-\xff]?|[\x8e\x8f\xa1-\xfe][\x80-\xff]"
)
"""A pattern for ASCII or an error, byte for byte; characters of two bytes and of three; or one error."""
_ESCAPE = re.compile(rb"\x1b(?:\(([BIJ])|\$[@B])")
_NEVER = b"\x0e\x0f\x1b"
"""ASCII characters without meaning where escapes switch."""
_SINGLE = bytes.maketrans(_NEVER, b"\xff" * len(_NEVER))
_ROMAN = str.maketrans("\\~", "\xa5\u203e")
_HALF = {each: 0xFF61 - 0x21 + each for each in range(0x21, 0x60)} | dict.fromkeys(range(0x60, 0x80), _BAD)
_DOUBLE = bytes(0xFF if each in _NEVER or each > 0x7E else each + 0x80 if each > 0x20 else each for each in range(256))


def euc_jp(data: bytes) -> str:
    """Each fault is one U+FFFD, and takes a pair, or what stands before a character of ASCII."""
    try:
        text = data.decode("euc_jp") if _TILDE not in data else ""
    except UnicodeDecodeError:
        text = ""
    if not text:
        return "".join(map(_read, _PIECE.finditer(data)))
    for ours, theirs in _VENDORS:
        text = text.replace(ours, theirs)
    return text


def iso_2022_jp(data: bytes) -> str:
    """The same; what ends a line, or parts words, does so among pairs too."""
    begin, mode, parts = 0, b"B", list[str]()
    for escape in _ESCAPE.finditer(data):
        parts.append(_switched(data[begin : escape.start()], mode))
        begin, mode = escape.end(), escape[1] or b""
    return "".join([*parts, _switched(data[begin:], mode)])


def _switched(data: bytes, mode: bytes) -> str:
    if not mode:
        return euc_jp(data.translate(_DOUBLE))
    text = data.translate(_SINGLE).decode("ascii", "replace")
    return text.translate(_ROMAN) if mode == b"J" else text.translate(_HALF) if mode == b"I" else text


def _read(piece: re.Match[bytes]) -> str:
    data = piece[0]
    match piece.lastgroup:
        case "single":
            return data.decode("ascii", "replace")
        case "two":
            return "".join([_pair(data[at : at + 2]) for at in range(0, len(data), 2)])
        case "kana":
            return data.decode("euc_jp")
        case "three":
            return "".join([_three(data[at : at + 3]) for at in range(0, len(data), 3)])
        case _:
            return _BAD


@cache
def _pair(data: bytes) -> str:
    """By its form in Shift_JIS, whose codec knows what vendors added."""
    row, cell = data[0] - 0xA0, data[1] - 0xA0
    first = (row - 1) // 2 + (0x81 if row <= 62 else 0xC1)
    second = cell + 0x3F + (cell >= 64) if row % 2 else cell + 0x9E
    return _or_bad(bytes((first, second)), "cp932")


@cache
def _three(data: bytes) -> str:
    return "\uff5e" if data == _TILDE else _or_bad(data, "euc_jp")


def _or_bad(data: bytes, codec: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return _BAD
