"""The formatting of answers, as far as Markdown has marks for it, and the same words in another format. Pure.

Promises: a text without marks has no formatting, and is its own plain text; a text in another format has the same words
in the same order.
"""

import re
from math import log2

_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?=\S)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=\S)")
_BOLD = re.compile(r"\*\*(?=[^\s*])([^*]*[^\s*])\*\*")
_CODE = re.compile(r"`([^`]+)`")
_ENDS = re.compile(r"(?<=[.!?\u2026\u3002\uff01\uff1f])\s+|\n+")
_WORD = re.compile(r"\w+")


def formatting(text: str) -> float:
    """The amount of formatting: log2(1 + marks), so that each doubling of the marks adds about as much."""
    return log2(1 + marks(text))


def marks(text: str) -> int:
    """The number of headings, list items, rows of tables, blocks of code, and of bold and code within lines."""
    found, in_code = 0, False
    for line in text.split("\n"):
        if _FENCE.match(line):
            in_code = not in_code
            found += in_code
        elif not in_code:
            found += _is_row(line) + bool(_HEADING.match(line)) + bool(_ITEM.match(line))
            found += len(_BOLD.findall(line)) + len(_CODE.findall(line))
    return found


def plain(text: str) -> str:
    """The text without the marks of headings, list items, bold and code within lines.

    Tables and blocks of code stay as they are, since without their marks they would be another text.
    """
    found, in_code = list[str](), False
    for line in text.split("\n"):
        is_fence = _FENCE.match(line) is not None
        found.append(line if is_fence or in_code or _is_row(line) else _bare(line))
        in_code ^= is_fence
    return "\n".join(found)


def restyled(text: str) -> str | None:
    """The same words in another format: plain if the text has marks, else a list of its sentences with bold words.

    None where the text does not allow it: it is one sentence, or has a table or a block of code.
    """
    if any(_is_row(line) or _FENCE.match(line) for line in text.split("\n")):
        return None
    made = plain(text) if marks(text) else _listed(text)
    return made if differ_in_format(text, made) else None


def differ_in_format(one: str, other: str) -> bool:
    """True if two texts have the same words, and not the same number of marks."""
    return marks(one) != marks(other) and plain(one).split() == plain(other).split()


def _is_row(line: str) -> bool:
    bare = line.strip()
    return len(bare) > 1 and bare[0] == bare[-1] == "|"


def _bare(line: str) -> str:
    begin = _HEADING.match(line) or _ITEM.match(line)
    return _CODE.sub(r"\1", _BOLD.sub(r"\1", line[begin.end() :] if begin else line))


def _listed(text: str) -> str:
    """The sentences and lines of a text as a list, the first word of each in bold; the text itself if it is one."""
    parts = [part.strip() for part in _ENDS.split(text) if part.strip()]
    return "\n".join("- " + _WORD.sub(r"**\g<0>**", part, count=1) for part in parts) if len(parts) > 1 else text
