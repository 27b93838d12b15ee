"""The class of every character, frozen: libs/tutti/corpus/counts/characters.txt.

Promises: the table is a function of the Unicode version that it names and of the rules below; `--check` fails when the
file is not what this makes. Another Unicode version, or another rule, is another version of the statistics.
"""

import argparse
import sys
import unicodedata
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "libs" / "tutti" / "corpus" / "counts" / "characters.txt"
UNICODE = "14.0.0"
LAST = 0x10FFFF

ZERO_WIDTH_SPACE = 0x200B
APOSTROPHES_AND_STOP = "'\u2019."
SEPARATORS_OF_THOUSANDS = ","
BULLETS = "-*\u2022\u2023\u25e6\u2043"
# Ends of sentences and closing quotes, in the scripts that have their own.
TERMINALS = (
    ".!?\u2026\u3002\uff01\uff1f\uff0e\uff61\u0964\u0965\u061f\u06d4\u0589\u1362\u104b\u17d4\u203c\u2047\u2048\u2049"
)
CLOSING_QUOTES = "\"'\u201d\u2019\u00bb\u300d\u300f"
NO_LINE_END = "\u2026"
FLAGGED = BULLETS + TERMINALS + CLOSING_QUOTES
HIRAGANA = ((0x3041, 0x3096), (0x309D, 0x309F))
HAN = ((0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))
IDEOGRAPHS = {code for first, last in (*HIRAGANA, *HAN, (0x20000, 0x3FFFD)) for code in range(first, last + 1)}


def kind(code: int) -> str:
    """One letter for how a character takes part in words."""
    character, category = chr(code), unicodedata.category(chr(code))
    if code in IDEOGRAPHS:
        return "I"
    if category in ("Zs", "Zl", "Zp", "Cc", "Cs") or code == ZERO_WIDTH_SPACE:
        return "S"
    if character in APOSTROPHES_AND_STOP or category == "Pc":
        return "J"
    if character in SEPARATORS_OF_THOUSANDS:
        return "T"
    if category[0] == "M" or category == "Cf":
        return "E"
    if category[0] == "L":
        return "L"
    return "N" if category[0] == "N" else "M"


def flags(code: int) -> str:
    """Letters for what else it is: an end of a sentence, of a line, a bullet."""
    character = chr(code)
    if character not in FLAGGED:
        return ""
    ends_line = character in TERMINALS + CLOSING_QUOTES and character not in NO_LINE_END
    return "t" * (character in TERMINALS) + "e" * ends_line + "b" * (character in BULLETS)


def table() -> str:
    """The file: a head, then one line a range of equal characters."""
    lines = [
        f"# Classes of characters, from Unicode {UNICODE}, made by tools/characters.py.",
        "# first..last class: S space, L letter, N number, I ideograph (a word by itself), E extends what it follows,",
        "# J joins letters and numbers, T joins numbers, M mark; t ends a sentence, e may end a line, b is a bullet.",
    ]
    first, seen = 0, kind(0) + flags(0)
    for code in range(1, LAST + 2):
        now = kind(code) + flags(code) if code <= LAST else ""
        if now != seen:
            lines.append(f"{first:04X}..{code - 1:04X} {seen}")
            first, seen = code, now
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the file is what this makes")
    given = parser.parse_args()
    if unicodedata.unidata_version != UNICODE:
        print(
            f"this Python has Unicode {unicodedata.unidata_version}; expected {UNICODE} (Python 3.11)", file=sys.stderr
        )
        return 2
    made = table()
    if given.check:
        return 0 if TARGET.read_text(encoding="ascii") == made else 1
    TARGET.write_text(made, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
