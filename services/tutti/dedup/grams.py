"""N-grams: so many words in a row, as 64-bit names."""

from __future__ import annotations

import numpy as np

from tutti.dedup.components import Documents
from tutti.dedup.shingles import ODD, Counts, Names, mix


def grams(words: Names, bounds: Counts, count: int) -> tuple[Names, Documents]:
    """The n-grams of `count` words of texts in a row, uint64, and the place of the first word of each, int64.

    `words` and `bounds` are those of `shingles.words_of`. The name is the polynomial of the words' names, as that of a
    shingle, and covers the count: those of other counts have other names. None reaches from a text into the next.
    """
    places = np.arange(max(len(words) - count + 1, 0))
    if not len(places):
        return np.zeros(0, np.uint64), places
    rolling = np.zeros(len(places), np.uint64)
    for place in range(count):
        rolling *= np.uint64(ODD)
        rolling += words[place : place + len(places)]
    ends = np.repeat(bounds[1:], np.diff(bounds))[: len(places)]
    inside = places + count <= ends
    return mix(rolling[inside] + np.uint64(count)), places[inside]
