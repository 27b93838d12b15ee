"""The folding of every character for near-duplicates, frozen: services/tutti/dedup/folding.txt.

Promises: the table is a function of the Unicode version that it names and of the rules below; `--check` fails when the
file is not what this makes. Another Unicode version, or another rule, is another FOLDING_VERSION.
"""

import argparse
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from tutti.records.canonical import bytes_digest

TARGET = Path(__file__).resolve().parents[1] / "services" / "tutti" / "dedup" / "folding.txt"
UNICODE = "14.0.0"
CODES = 0x110000

ZERO_WIDTH_SPACE = 0x200B
VARIATION_SELECTORS = ((0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
LEAST_ACCENT = (
    10  # canonical combining classes below: viramas, nuktas and the voicing of kana, which make other letters
)
# Written without spaces: Thai to Lao, Myanmar, Khmer, kana, Han.
ALONE = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B)),
    *((0x3041, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFD)),
)


def within(code: int, spans: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in spans)


def is_accent(character: str) -> bool:
    return unicodedata.combining(character) >= LEAST_ACCENT


def folded(character: str) -> str:
    """One character for one: compatibility forms, capitals and accents go where a single letter or number remains."""
    bare = [each for each in unicodedata.normalize("NFKD", character) if not is_accent(each)]
    base = bare[0] if len(bare) == 1 and bare[0].isalnum() else character
    small = base.casefold()
    if len(small) != 1:
        small = base.lower()
    return small if len(small) == 1 else base


def rule(code: int) -> tuple[int, str] | None:
    """What a character becomes, and how: w in a word, s a word by itself, x nothing. None: it separates words."""
    character = chr(code)
    category = unicodedata.category(character)
    if code == ZERO_WIDTH_SPACE:
        return None
    if category in ("Cf", "Me") or is_accent(character) or within(code, VARIATION_SELECTORS):
        return code, "x"
    if category[0] not in "LNM":
        return None
    made = ord(folded(character))
    return made, "s" if within(made, ALONE) else "w"


def lines() -> Iterator[str]:
    """Runs of characters that become the same number of characters in a row, in the same way."""
    first, start = 0, None
    for code in range(CODES + 1):
        now = rule(code) if code < CODES else None
        goes_on = start is not None and now is not None and now == (start[0] + code - first, start[1])
        if not goes_on:
            if start is not None:
                yield f"{first:04X}..{code - 1:04X} {start[0]:04X} {start[1]}"
            first, start = code, now


def table() -> str:
    """The file: a head with the digest of what follows, then one line a run."""
    body = "".join(f"{line}\n" for line in lines())
    return (
        f"# Folding of characters, version 1, from Unicode {UNICODE}, made by tools/folding.py.\n"
        "# first..last to how: w in a word, s a word by itself, x left out; any other character separates words.\n"
        f"# {bytes_digest(body.encode())}\n{body}"
    )


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
