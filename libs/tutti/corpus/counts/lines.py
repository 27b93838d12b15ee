"""Lines: what a line of text is like, and what the cleaning of C4 says of it.

A line lies between line feeds; one that holds nothing but spaces is *blank* and counts nowhere. Its *pieces* lie
between spaces. It *ends well* with a mark that ends a sentence or a closing quote. C4 keeps a line by the tests of
`Verdict`, the first that fails names it (Raffel et al. 2020, section 2.2, in the order of the code that made C4,
tensorflow_datasets/text/c4_utils.py).
"""

from __future__ import annotations

import re
from enum import Enum

from tutti.corpus.counts.characters import Class, Flag, class_of, has

SHORT_LINE = 30
LONG_PIECE = 1000
LEAST_PIECES = 5
ELLIPSIS = ("...", "\u2026")
POLICY = ("privacy policy", "terms of use", "cookie policy", "uses cookies", "use of cookies", "use cookies")

_CITATION = re.compile(r"\[(?:[0-9]*+|edit|citation needed)\]")


class Verdict(Enum):
    """The decision of C4's cleaning about a line; the value is the column that counts it."""

    LONG_PIECE = "c4_long_piece_lines"
    UNENDED = "c4_unended_lines"
    FEW_PIECES = "c4_few_piece_lines"
    JAVASCRIPT = "c4_javascript_lines"
    POLICY = "c4_policy_lines"
    KEPT = "c4_lines"


def stripped(line: str) -> str:
    """Without the spaces at both ends."""
    begin, end = 0, len(line)
    while begin < end and class_of(line[begin]) == Class.SPACE:
        begin += 1
    while begin < end and class_of(line[end - 1]) == Class.SPACE:
        end -= 1
    return line[begin:end]


def pieces(line: str) -> list[str]:
    """The pieces between spaces."""
    return "".join(" " if class_of(each) == Class.SPACE else each for each in line).split(" ")


def ends_well(line: str) -> bool:
    """True if a stripped line ends with a mark that ends a sentence, or a closing quote."""
    return bool(line) and has(line[-1], Flag.LINE_END)


def lower(text: str) -> str:
    """Lower case for ASCII alone, so that no table of cases has a part in it."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def verdict(line: str) -> Verdict:
    """The decision of C4's cleaning about a line that is not blank."""
    line = stripped(line)
    parts = [piece for piece in pieces(line) if piece]
    if max(map(len, parts)) > LONG_PIECE:
        return Verdict.LONG_PIECE
    ended, lowered = _without_citations(line), lower(line)
    if not ends_well(ended) or ended.endswith(ELLIPSIS):
        return Verdict.UNENDED
    if len(parts) < LEAST_PIECES:
        return Verdict.FEW_PIECES
    if "javascript" in lowered:
        return Verdict.JAVASCRIPT
    return Verdict.POLICY if any(phrase in lowered for phrase in POLICY) else Verdict.KEPT


def _without_citations(line: str) -> str:
    end = len(line)
    while end and line[end - 1] == "]":
        begin = line.rfind("[", 0, end)
        if begin < 0 or not _CITATION.fullmatch(line, begin, end):
            break
        end = begin
        while end and class_of(line[end - 1]) == Class.SPACE:
            end -= 1
    return line[:end]
