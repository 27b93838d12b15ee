"""Characters: how each takes part in words, lines and sentences, as frozen in characters.txt.

The table does not follow the Unicode version of the Python at hand: the same text has the same words everywhere.
"""

from __future__ import annotations

import functools
from enum import IntEnum, IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("characters.txt")
CODES = 0x110000


class Class(IntEnum):
    """The role of a character in words; words.py has the rules."""

    SPACE = 0
    LETTER = 1
    NUMBER = 2
    IDEOGRAPH = 3
    EXTEND = 4
    JOINER = 5
    THOUSANDS = 6
    MARK = 7


class Flag(IntFlag):
    """Further properties of a character."""

    TERMINAL = 16  # ends a sentence
    LINE_END = 32  # ends a line of prose: a terminal mark or a closing quote
    BULLET = 64  # begins an item of a list


_LETTERS = dict(zip("SLNIEJTM", Class, strict=True))
_FLAGS = {"t": Flag.TERMINAL, "e": Flag.LINE_END, "b": Flag.BULLET}


@functools.cache
def characters() -> bytes:
    """One byte for every code point: its Class and Flags."""
    table = bytearray(CODES)
    for line in SOURCE.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            span, kind = line.split(" ")
            first, last = (int(code, 16) for code in span.split(".."))
            byte = _LETTERS[kind[0]] | sum(_FLAGS[flag] for flag in kind[1:])
            table[first : last + 1] = bytes([byte]) * (last + 1 - first)
    return bytes(table)


_CLASSES = tuple(Class)


def class_of(character: str) -> Class:
    return _CLASSES[characters()[ord(character)] & 7]


def has(character: str, flag: Flag) -> bool:
    return bool(characters()[ord(character)] & flag)
