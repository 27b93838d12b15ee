"""Features: which words, pairs of words and beginnings of words stand in a text, each as a number.

A *word* is a run of letters and numbers in small letters (of the scripts in `_CAPITALS`), a digit is 0; an ideograph is
a word by itself; everything else parts words. A text has a feature for each word, for each two words in a row, for the
first STEM characters of each longer word, for each mark and for shouting (a word of LOUD capitals or more and nothing
else), once however often it stands there.

Promises: the numbers follow from the text and FEATURES_VERSION alone (characters.txt is frozen), from the kernel
(features.c) as from Python. Sums over features are sums of integers, so that their order does not matter.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from pathlib import Path

from tutti.corpus.counts.characters import Class, characters, class_of
from tutti.corpus.texts import buffers
from tutti.native.arrays import np, npt, pa
from tutti.native.native import Kernel, kernel

_SOURCE = Path(__file__).with_suffix(".c")
FEATURES_VERSION = 1
STEM, LOUD = 5, 3
FOLDED = 0x530
"""Code points below this may have another small letter."""

_CAPITALS = (  # first, last, distance to the small letter, step: Latin, Greek, Cyrillic
    *((0x41, 0x5A, 32, 1), (0xC0, 0xD6, 32, 1), (0xD8, 0xDE, 32, 1)),
    *((0x100, 0x136, 1, 2), (0x139, 0x147, 1, 2), (0x14A, 0x176, 1, 2), (0x179, 0x17D, 1, 2)),
    *((0x391, 0x3A1, 32, 1), (0x3A3, 0x3AB, 32, 1), (0x400, 0x40F, 80, 1), (0x410, 0x42F, 32, 1), (0x460, 0x480, 1, 2)),
)
_WORD, _STEM, _PAIR, _MARK = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD1B54A32D192ED03
_SHOUT = 0x110000  # beside all marks, which are code points
_MIX = 0xD6E8FEB86659FD93
_MARKS = (Class.MARK, Class.JOINER, Class.THOUSANDS)
_HALF = 32


@functools.cache
def folding() -> npt.NDArray[np.uint32]:
    """uint32 [FOLDED]: the small letter of each code point, 0 for a digit."""
    table = np.arange(FOLDED, dtype=np.uint32)
    for first, last, distance, step in _CAPITALS:
        table[first : last + 1 : step] += np.uint32(distance)
    table[0x178] = 0xFF
    table[ord("0") : ord("9") + 1] = ord("0")
    return table


_IN_WORD = (Class.LETTER, Class.NUMBER, Class.EXTEND)


class _Small(dict[int, str]):
    """The code that stands for a character where words are separated by spaces."""

    def __missing__(self, code: int) -> str:
        kind = class_of(chr(code))
        if kind in _IN_WORD:
            self[code] = chr(folding()[code]) if code < FOLDED else chr(code)
        else:
            self[code] = f" {chr(code)} " if kind is Class.IDEOGRAPH else " "
        return self[code]


class _Parted(dict[int, str]):
    """The same for a word as it is written."""

    def __missing__(self, code: int) -> str:
        self[code] = chr(code) if class_of(chr(code)) in _IN_WORD else " "
        return self[code]


_small, _parted = _Small(), _Parted()


def words(text: str) -> list[str]:
    """The words of a text as they are counted."""
    return text.translate(_small).split()


def features(text: str, bits: int) -> npt.NDArray[np.uint32]:
    """uint32 [distinct], sorted, each < 2 ** bits: the features of one text, by the first bits of their names."""
    return np.unique(names(text) >> np.uint64(64 - bits)).astype(np.uint32)


def names(text: str) -> npt.NDArray[np.uint64]:
    """uint64: the features of one text in full, some of them again. The definition of what the kernel does."""
    found = words(text)
    marks = {ord(each) for each in set(text) if class_of(each) in _MARKS} | ({_SHOUT} if shouts(text) else set())
    hashes = np.array([zlib.crc32(word.encode()) for word in found], np.uint64)
    stems = np.array([zlib.crc32(word[:STEM].encode()) for word in found if len(word) > STEM], np.uint64)
    kinds = [hashes * _WORD, stems * _STEM, hashes[:-1] * _PAIR + hashes[1:], np.array([*marks], np.uint64) * _MARK]
    return _mixed(np.concatenate(kinds))


def of_word(word: str) -> int:
    """The name of a word's feature."""
    return _name(zlib.crc32(word.encode()) * _WORD)


def of_stem(word: str) -> int:
    """The name of the feature of all words of more than STEM characters that begin as this one does."""
    return _name(zlib.crc32(word[:STEM].encode()) * _STEM)


def of_pair(first: str, second: str) -> int:
    """The name of the feature of two words in a row."""
    return _name(zlib.crc32(first.encode()) * _PAIR + zlib.crc32(second.encode()))


def _name(value: int) -> int:
    return int(_mixed(np.array([value % 2**64], np.uint64))[0])


def shouts(text: str) -> bool:
    """True if a word has LOUD capitals or more, and nothing else."""
    return any(
        len(word) >= LOUD and all(ord(each) < FOLDED and is_capital(ord(each)) for each in word)
        for word in set(text.translate(_parted).split())
    )


def is_capital(code: int) -> bool:
    """True if a code point below FOLDED has another small letter."""
    return bool(folding()[code] > code)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    half, factor = np.uint64(_HALF), np.uint64(_MIX)
    values = (values ^ (values >> half)) * factor
    return (values ^ (values >> half)) * factor


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def sums(texts: pa.Array, weights: npt.NDArray[np.int16]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """int64 [texts, labels], the sum of the weights [2 ** bits, labels] of each text's features; int64 [texts], how
    many these are. Raises UnreadableTexts.
    """
    data, offsets = buffers(texts)
    library = native().library
    if library is None:
        return _by_python(texts, weights)
    return _by_kernel(library, data, offsets, weights)


def having(texts: pa.Array, wanted: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """bool [texts, wanted]: which have a feature of each of these names, of which none is 0 or there twice.

    Raises UnreadableTexts.
    """
    data, offsets = buffers(texts)
    library = native().library
    if library is None:
        return np.array([np.isin(wanted, names(text)) for text in texts.to_pylist()], np.bool_).reshape(-1, len(wanted))
    found = np.zeros((len(texts), len(wanted)), np.bool_)
    table, numbers = _table(wanted.tobytes())
    library.having(
        data.ctypes.data_as(ctypes.c_void_p),
        offsets.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(len(texts)),
        characters(),
        folding().ctypes.data_as(ctypes.c_void_p),
        table.ctypes.data_as(ctypes.c_void_p),
        numbers.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(len(table) - 1),
        ctypes.c_int64(len(wanted)),
        found.ctypes.data_as(ctypes.c_void_p),
    )
    return found


@functools.lru_cache(maxsize=4)
def _table(names: bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Open addressing by the last bits: names, and 0 for nothing, and beside each which it is; at most a quarter of it
    is taken.
    """
    wanted = np.frombuffer(names, np.uint64)
    size = 1 << (4 * len(wanted)).bit_length()
    table, numbers = [0] * size, np.zeros(size, np.int64)
    for number, name in enumerate(wanted.tolist()):
        at = name % size
        while table[at]:
            at = (at + 1) % size
        table[at], numbers[at] = name, number
    return np.array(table, np.uint64), numbers


def _by_python(texts: pa.Array, weights: npt.NDArray[np.int16]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    bits = weights.shape[0].bit_length() - 1
    found = [features(text, bits) for text in texts.to_pylist()]
    totals = [weights[each].sum(axis=0, dtype=np.int64) for each in found]
    counts = np.array([len(each) for each in found], np.int64)
    return np.array(totals, np.int64).reshape(len(found), weights.shape[1]), counts


def _by_kernel(
    library: ctypes.CDLL,
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    texts, (rows, labels) = len(offsets) - 1, weights.shape
    weights, small = np.ascontiguousarray(weights), folding()
    totals, counts = np.zeros((texts, labels), np.int64), np.zeros(texts, np.int64)
    seen = np.zeros(max(rows // 8, 1), np.uint8)
    library.sums(
        data.ctypes.data_as(ctypes.c_void_p),
        offsets.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(texts),
        characters(),
        small.ctypes.data_as(ctypes.c_void_p),
        weights.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int32(rows.bit_length() - 1),
        ctypes.c_int32(labels),
        seen.ctypes.data_as(ctypes.c_void_p),
        totals.ctypes.data_as(ctypes.c_void_p),
        counts.ctypes.data_as(ctypes.c_void_p),
    )
    return totals, counts
