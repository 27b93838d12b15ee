"""Mojibake: text that was UTF-8 and was decoded as windows-1252 or Latin-1 before it was written down.

A line that holds what such a mistake makes of a character (`Ã©`) is given to ftfy, which undoes the mistake where the
whole line can have come of one and reads better without it: what only quotes such characters stays. Mistakes by other
character sets stay too. A change here, or another ftfy, is a new version.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tutti.ingest.encoding.normalisation import utf8

if TYPE_CHECKING:
    from ftfy import TextFixerConfig

MOJIBAKE_VERSION = 1

_SUSPECT = re.compile(
    # The lead byte of a character of several, U+00C2 to U+00F4, ...
    rb"\xc3[\x82-\xb4]"
    # ... and one of its others: U+0080 to U+00BF, or what windows-1252 has instead of controls.
    rb"(?:\xc2[\x80-\xbf]|\xc5[\x92\x93\xa0\xa1\xb8\xbd\xbe]|\xc6\x92|\xcb[\x86\x9c]"
    rb"|\xe2(?:\x80[\x93\x94\x98-\x9a\x9c-\x9e\xa0-\xa2\xa6\xb0\xb9\xba]|\x82\xac|\x84\xa2))"
)


def repaired(data: bytes) -> bytes:
    """Undo mojibake in a text in UTF-8 (`normalisation.utf8`); clean texts are returned unchanged."""
    if data.isascii() or _SUSPECT.search(data) is None:
        return data
    return b"\n".join(_line(line) if _SUSPECT.search(line) else line for line in data.split(b"\n"))


def _line(line: bytes) -> bytes:
    import ftfy  # few texts need it

    return utf8(ftfy.fix_encoding(line.decode("utf-8", "surrogatepass"), _config()))


@cache
def _config() -> TextFixerConfig:
    from ftfy import TextFixerConfig

    return TextFixerConfig(decode_inconsistent_utf8=False, replace_lossy_sequences=False, explain=False)
