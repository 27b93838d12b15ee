"""What a letter, a number and space are in a tokenizer's words, frozen: libs/tutti/corpus/tokens/wordcharacters.txt.

Promises: the table is what the library `tokenizers` at hand means by \\p{L}, \\p{N} and \\s; `--check` fails when the
file is not. Another table gives other words, and so other tokenizers: another BPE_VERSION.
"""

import argparse
import sys

from tokenizers import Regex, normalizers

from tutti.corpus.tokens.bytepairs import CHARACTERS, CODES, KINDS

CLASSES = dict(zip(KINDS, (r"\p{L}", r"\p{N}", r"\s"), strict=True))
EVERY = "".join(chr(code) for code in range(CODES) if not 0xD800 <= code < 0xE000)
HEAD = """# Classes of characters, as Oniguruma has them, made by tools/wordcharacters.py.
# first..last class: L letter, N number, S space.
"""


def members(kind: str) -> list[int]:
    """The code points of a class, in order."""
    others = normalizers.Replace(Regex(f"[^{CLASSES[kind]}]+"), "")
    return [ord(character) for character in others.normalize_str(EVERY)]


def spans(codes: list[int]) -> list[tuple[int, int]]:
    """Runs of code points, first and last."""
    found: list[tuple[int, int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def table() -> str:
    """The file: a head, then one line a range of one class."""
    rows = sorted((first, last, kind) for kind in KINDS for first, last in spans(members(kind)))
    return HEAD + "".join(f"{first:04X}..{last:04X} {kind}\n" for first, last, kind in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 when the file is another")
    if parser.parse_args().check:
        return 0 if CHARACTERS.read_text(encoding="ascii") == table() else 1
    CHARACTERS.write_text(table(), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
