"""Windows: the parts of a text that are judged one by one, so that harmless sentences do not outvote a harmful one.

A window is the longest run of whole sentences that ends with a given sentence and has at most `most` characters; so
windows overlap, and each sentence is judged with those before it. Promises: where a sentence ends follows from the text
up to there alone, so a text that is still growing has the windows of the finished one.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

WINDOWS_VERSION = 1
MOST_WINDOW = 192
"""Characters of a window, at most, that classifiers of sentences are used with."""
_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019\u00bb)\]]*\s|\n")
"""Marks that end sentences, quotes and brackets that close, white space."""
_SPACE = re.compile(r"\s")


def next_end(text: str, begin: int, most: int) -> int | None:
    """Return where the sentence that begins at `begin` ends; None while the text is too short to know.

    A sentence ends after the first white space behind its mark, or after a line feed; one without an end in `most`
    characters is cut behind its last white space in these, or after all of them.
    """
    if found := _END.search(text, begin, begin + most):
        return found.end()
    if len(text) - begin < most:
        return None
    spaces = [each.end() for each in _SPACE.finditer(text, begin, begin + most)]
    return spaces[-1] if spaces else begin + most


def sentences(text: str, most: int) -> list[int]:
    """Return where the sentences of a finished text begin, and where the last one ends."""
    bounds = [0]
    while (end := next_end(text, bounds[-1], most)) is not None:
        bounds.append(end)
    return bounds if bounds[-1] == len(text) else [*bounds, len(text)]


def begin_of(bounds: Sequence[int], end: int, most: int) -> int:
    """Return where the window that ends at `end` begins; `bounds`: 0 and the sorted ends of the sentences before it."""
    return bounds[bisect_left(bounds, end - most)]


def windows(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each window of a finished text; of an empty one too."""
    bounds = sentences(text, most)
    if len(bounds) == 1:
        yield 0, 0
    for end in bounds[1:]:
        yield begin_of(bounds, end, most), end
