"""Character sets: the labels that pages declare, and what is guessed of bytes that no declaration explains.

Promises: names are those of the WHATWG encoding standard; what they stand for is what browsers make of them, so that
`shift_jis` has the characters that Windows added to it; the same bytes are always guessed to be the same.
"""

from __future__ import annotations

import re

from resiliparse.parse.encoding import EncodingDetector

from tutti.ingest.encoding.japanese import euc_jp, iso_2022_jp

MULTIBYTE = frozenset(("shift_jis", "euc-jp", "iso-2022-jp", "gb18030", "big5", "euc-kr"))
_GUESSED_BYTES = 16 << 10
_MARKUP = re.compile(rb"<[^<>]*>")
_NOT_ASCII = re.compile(rb"[\x1b\x80-\xff]")
_ASCII = bytes(range(128))
_LEAST_LATIN = 0.01
"""Of a text, the share of bytes that are not ASCII from which on a guess among Latin sets is believed."""

# The labels of the encoding standard (section 4.2), but for UTF-16; anything else is decoded as if nothing had been
# declared, and so are sets that browsers refuse.  They read GBK as GB18030, and a page that declares x-user-defined as
# windows-1252 (HTML standard, 13.2.3.2).
_SETS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866 ibm866",
    "iso-8859-2": "csisolatin2 iso-ir-101 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-ir-109 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-ir-110 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-ir-144 iso_8859-5:1988",
    "iso-8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i "
    "iso-ir-127 iso_8859-6:1987",
    "iso-8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso_8859-7:1987 sun_eu_greek",
    "iso-8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso_8859-8:1988 visual",
    "iso-8859-8-i": "csiso88598i iso-8859-8-i logical",
    "iso-8859-10": "csisolatin6 iso-ir-157 l6 latin6",
    "iso-8859-15": "csisolatin9 iso_8859-15 l9",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "windows-1252": "ansi_x3.4-1968 ascii cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 "
    "iso_8859-1:1987 l1 latin1 us-ascii x-user-defined",
    "windows-1254": "csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb18030 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso-2022-jp": "csiso2022jp iso-2022-jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "euc-kr": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
}
LABELS = {
    **{label: name for name, labels in _SETS.items() for label in labels.split()},
    **{f"{iso}8859-{k}": f"iso-8859-{k}" for iso in ("iso-", "iso") for k in (*range(2, 9), 10, 13, 14, 15)},
    **{f"iso8859{k}": f"iso-8859-{k}" for k in (*range(2, 9), 10, 13, 14, 15)},
    **{f"iso_8859-{k}": f"iso-8859-{k}" for k in range(2, 9)},
    **{f"{name}125{k}": f"windows-125{k}" for k in range(9) for name in ("windows-", "cp", "x-cp")},
    "iso-8859-16": "iso-8859-16",
}
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
    return LABELS.get(label.strip(" \t\n\f\r\"'").lower())


def characters(data: bytes, charset: str) -> tuple[str, int]:
    """What bytes stand for in a character set, and how many of them became U+FFFD because they stand for nothing."""
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
