"""Shingles: five words in a row, as 64-bit names.

A *word* is a longest run of characters that folding.txt marks as in a word, or one that it marks as a word by itself,
folded. The name of a word is the polynomial of its folded codes in an odd base modulo 2^64, mixed; that of a shingle is
the same of its words' names. A text of one to four words is one shingle of them all; one without words has none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus.texts import buffers
from tutti.dedup.folding import ALONE, LEFT_OUT, SEPARATOR, folding
from tutti.dedup.kernel import address, native

WORDS = 5
PIECE = 1 << 18  # bytes that numpy looks at together, more for a longer word

Bytes = npt.NDArray[np.uint8]
Names = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

ODD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def shingles(texts: pa.Array) -> tuple[Names, Counts]:
    """All shingles of a string array in a row, with repetitions, uint64; where each text's begin, int64 [texts + 1].

    Raises UnreadableTexts.
    """
    data, offsets = buffers(texts)
    library = native().library
    return by_numpy(data, offsets) if library is None else by_kernel(library, data, offsets)


def words_of(texts: pa.Array) -> tuple[Names, Counts]:
    """The names of all words of a string array in a row, uint64; where each text's begin, int64 [texts + 1].

    Raises UnreadableTexts.
    """
    data, offsets = buffers(texts)
    library = native().library
    return words_by_numpy(data, offsets) if library is None else words_by_kernel(library, data, offsets)


def words_by_kernel(library: ctypes.CDLL, data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    return _called(library.words, data, offsets)


def words_by_numpy(data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    return _in_a_row([words(data[begin:end]) for begin, end in pairwise(offsets)])


def by_kernel(library: ctypes.CDLL, data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    return _called(library.shingles, data, offsets)


def _called(function: Callable[..., object], data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    bounds = np.zeros(len(offsets), np.int64)
    # At most one word to two bytes, and one shingle a word; what is not written is never resident.
    found = np.empty(int(offsets[-1] - offsets[0]) // 2 + len(offsets), np.uint64)
    texts = ctypes.c_int64(len(offsets) - 1)
    function(address(data), address(offsets), texts, address(folding()), address(found), address(bounds[1:]))
    return found[: bounds[-1]], bounds


def by_numpy(data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    return _in_a_row([of_words(words(data[begin:end])) for begin, end in pairwise(offsets)])


def _in_a_row(found: list[Names]) -> tuple[Names, Counts]:
    bounds = np.zeros(len(found) + 1, np.int64)
    np.cumsum([len(each) for each in found], out=bounds[1:])
    return np.concatenate([np.zeros(0, np.uint64), *found]), bounds


def mix(values: Names) -> Names:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014), element by element."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def of_words(names: Names) -> Names:
    """The shingles of a text, from the names of its words."""
    if not len(names):
        return names
    count = min(len(names), WORDS)
    rolling = np.zeros(len(names) - count + 1, np.uint64)
    for place in range(count):
        rolling = rolling * np.uint64(ODD) + names[place : place + len(rolling)]
    return mix(rolling if count == WORDS else rolling + np.uint64(count))


def words(text: Bytes) -> Names:
    """The names of the words of valid UTF-8, in its order."""
    return np.concatenate([np.zeros(0, np.uint64), *_words(text)])


def spelled(text: bytes) -> list[bytes]:
    """The words themselves, in order: each the folded characters of one, as bytes that no other word has."""
    codes, _ = _decoded(np.frombuffer(text, np.uint8))
    codes = codes[codes != LEFT_OUT]
    starts, lasts = _places(codes)
    letters = codes & ~ALONE
    return [letters[start : last + 1].tobytes() for start, last in zip(starts.tolist(), lasts.tolist(), strict=True)]


def _words(text: Bytes) -> Iterator[Names]:
    """The same a piece at a time; a piece ends where a word does."""
    begin, size = 0, PIECE
    while begin < len(text):
        codes, widths = _decoded(text[begin : begin + size])
        if begin + size < len(text):
            ends = np.flatnonzero((codes == SEPARATOR) | (codes >= ALONE))
            if not len(ends):
                size *= 2
                continue
            codes, widths = codes[: ends[-1] + 1], widths[: ends[-1] + 1]
        yield _names(codes[codes != LEFT_OUT])
        begin, size = begin + int(widths.sum()), PIECE


def _decoded(text: Bytes) -> tuple[npt.NDArray[np.uint32], Counts]:
    """Folded characters and how many bytes each takes; one that is cut off at the end is left out."""
    first = np.flatnonzero((text & 0xC0) != 0x80)
    lead = text[first]
    widths = 1 + (lead >= 0xC0).astype(np.int64) + (lead >= 0xE0) + (lead >= 0xF0)
    if len(first) and first[-1] + widths[-1] > len(text):
        first, lead, widths = first[:-1], lead[:-1], widths[:-1]
    codes = (lead & np.array([0, 0x7F, 0x1F, 0x0F, 0x07], np.uint8)[widths]).astype(np.uint32)
    for place in range(1, 4):
        longer = np.flatnonzero(widths > place)
        codes[longer] = codes[longer] << np.uint32(6) | (text[first[longer] + place] & 0x3F)
    return folding()[codes], widths


def _places(codes: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The starts of words, and their last characters, in folded characters without omissions."""
    is_word, alone = codes != SEPARATOR, codes >= ALONE
    ends_before = np.ones(len(codes), np.bool_)
    ends_before[1:] = ~is_word[:-1] | alone[:-1]
    starts = np.flatnonzero(is_word & (alone | ends_before))
    if not len(starts):
        return starts, starts
    return starts, np.flatnonzero(is_word & np.append(~is_word[1:] | alone[1:] | alone[:-1], True))


def _names(codes: npt.NDArray[np.uint32]) -> Names:
    """The names of the words of folded characters, none of them left out."""
    starts, lasts = _places(codes)
    if not len(starts):
        return np.zeros(0, np.uint64)
    # With the inverse powers of the base as weights the polynomial of a run is a difference of running sums.
    weighted = (codes & ~ALONE).astype(np.uint64) * powers(pow(ODD, -1, 1 << 64), len(codes))
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(weighted, out=sums[1:])
    return mix((sums[lasts + 1] - sums[starts]) * powers(ODD, len(codes))[lasts])


def powers(base: int, count: int) -> Names:
    """1, base, base^2 … modulo 2^64, uint64 [count]."""
    made = np.ones(count, np.uint64)
    known = 1
    while known < count:
        more = min(known, count - known)
        made[known : known + more] = made[:more] * np.uint64(pow(base, known, 1 << 64))
        known += more
    return made
