"""Units: the lines or paragraphs of texts, what each says, and what is cut where some of them go.

A line that is not blank is a unit, or a run of such lines is one: a paragraph. Two units say the same when they are
equal but for white space. Pure; places are bytes of UTF-8. Without a compiler Python finds the same units under other
names: what is done with names must not depend on more than which are equal.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from tutti.corpus.texts import buffers
from tutti.dedup.folding import LEFT_OUT, SEPARATOR, folding
from tutti.dedup.kernel import address
from tutti.native.native import Kernel, kernel

NAME_BYTES = 16
SOURCE = Path(__file__).with_suffix(".c")
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class Parts(Protocol):
    """Parts of texts in a row: where those of each text are among all, and where each begins and ends in its text."""

    @property
    def bounds(self) -> Numbers: ...

    @property
    def spans(self) -> Numbers: ...


class Unit(StrEnum):
    """The unit of text to compare."""

    LINE = "line"
    PARAGRAPH = "paragraph"


@dataclass(frozen=True, slots=True)
class Units:
    """The units of consecutive texts: `bounds`, int64 [texts + 1], delimit the units of each text.

    `spans`: int64 [units, 2], where each begins and ends in its text; `names`: uint64 [units, 2], equal where they say
    the same, for those that are `counted`.
    """

    bounds: Numbers
    spans: Numbers
    names: npt.NDArray[np.uint64]
    counted: npt.NDArray[np.bool_]


def native() -> Kernel:
    """units.c, or why there is none here; it costs time alone."""
    return kernel(SOURCE)


def units(texts: pa.Array, unit: Unit, least: int = 1) -> Units:
    """The units of texts. One is counted that says `least` characters, a letter or a number among them.

    What has no letter and no number, a brace or a rule between two parts, is how a text is built, not what it says.
    Raises UnreadableTexts.
    """
    data, offsets = buffers(texts)
    library = native().library
    return by_python(data, offsets, unit, least) if library is None else by_kernel(library, data, offsets, unit, least)


def none(texts: int) -> Units:
    """The units of texts that are looked at for none."""
    spans, names = np.zeros((0, 2), np.int64), np.zeros((0, 2), np.uint64)
    return Units(np.zeros(texts + 1, np.int64), spans, names, np.zeros(0, np.bool_))


def by_kernel(library: ctypes.CDLL, data: Bytes, offsets: Numbers, unit: Unit, least: int) -> Units:
    most = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
    # What is not written is never resident.
    spans, names = np.empty((most, 2), np.int64), np.empty((most, 2), np.uint64)
    counted, bounds = np.empty(most, np.bool_), np.zeros(len(offsets), np.int64)
    library.units(
        address(data),
        address(offsets),
        ctypes.c_int64(len(offsets) - 1),
        ctypes.c_int(unit is Unit.PARAGRAPH),
        ctypes.c_int64(least),
        address(folding()),
        address(spans),
        address(names),
        address(counted),
        address(bounds[1:]),
    )
    count = int(bounds[-1])
    return Units(bounds, spans[:count], names[:count], counted[:count])


def by_python(data: Bytes, offsets: Numbers, unit: Unit, least: int) -> Units:
    bounds, spans, names, counted = [0], list[tuple[int, int]](), list[bytes](), list[bool]()
    has_word = _word().search
    for first, last in pairwise(offsets.tolist()):
        text = data[first:last].tobytes()
        for begin, end in _spans(text, unit):
            words = said(text[begin:end])
            spans.append((begin, end))
            names.append(blake3(words.encode()).digest(NAME_BYTES))
            counted.append(len(words) >= least and has_word(words) is not None)
        bounds.append(len(spans))
    return Units(
        np.array(bounds, np.int64),
        np.array(spans, np.int64).reshape(-1, 2),
        np.frombuffer(b"".join(names), "<u8").astype(np.uint64).reshape(-1, 2),
        np.array(counted, np.bool_),
    )


def said(unit: bytes) -> str:
    """The words of a unit, separated by single spaces."""
    return " ".join(unit.decode().split())


def holders(lines: Parts, made: Units) -> Numbers:
    """The unit that each line lies in, where there is one of all that is not blank."""
    first, second = (np.repeat(np.arange(len(each.bounds) - 1), np.diff(each.bounds)) for each in (made, lines))
    begins = first << 32 | made.spans[:, 0]
    return np.searchsorted(begins, second << 32 | lines.spans[:, 0], "right") - 1


def cut(made: Parts, gone: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """The text of each range, int64 [n], and the ranges, int64 [n, 2], that leave the parts that are not gone.

    What stays is apart as before: each part goes with what is behind it, those behind the last that stays with what is
    before them. Ranges come in order and do not meet.
    """
    every = np.arange(len(gone))
    texts = np.repeat(np.arange(len(made.bounds) - 1), np.diff(made.bounds))
    last = np.full(len(made.bounds) - 1, -1)
    np.maximum.at(last, texts[~gone], every[~gone])
    behind, first = every > last[texts], every == made.bounds[texts]
    begins, ends = made.spans.T
    begin = np.where(behind & ~first, np.roll(ends, 1), begins)[gone]
    end = np.where(behind, ends, np.roll(begins, -1))[gone]
    texts = texts[gone]
    new = np.ones(len(texts), np.bool_)
    new[1:] = (texts[1:] != texts[:-1]) | (begin[1:] != end[:-1])
    closes = np.append(new[1:], True)[: len(texts)]
    return texts[new], np.stack([begin[new], end[closes]], axis=1)


def characters(data: Bytes, ranges: Numbers) -> Numbers:
    """The number of characters that begin in ranges of UTF-8 bytes, int64 [n, 2], which are ascending and disjoint."""
    if not len(ranges):
        return np.zeros(0, np.int64)
    least, most = int(ranges[0, 0]), int(ranges[-1, 1])
    begins = np.append((data[least:most] & 0xC0) != 0x80, False)
    found = np.add.reduceat(begins, (ranges - least).ravel(), dtype=np.int64)[::2]
    return np.where(ranges[:, 0] == ranges[:, 1], 0, found)


def _spans(text: bytes, unit: Unit) -> Iterator[tuple[int, int]]:
    at, begin, end = 0, -1, -1  # of the unit that is open
    for line in text.split(b"\n"):
        if line.decode().strip():
            begin, end = at if begin < 0 else begin, at + len(line)
            if unit is Unit.LINE:
                yield begin, end
                begin = -1
        elif begin >= 0:
            yield begin, end
            begin = -1
        at += len(line) + 1
    if begin >= 0:
        yield begin, end


@functools.cache
def _word() -> re.Pattern[str]:
    """A character that is part of a word, by the frozen table of folding."""
    table = folding()
    codes = np.flatnonzero((table != SEPARATOR) & (table != LEFT_OUT)).tolist()
    edges = [codes[0], *(code for two in pairwise(codes) if two[1] != two[0] + 1 for code in two), codes[-1]]
    ranges = zip(edges[::2], edges[1::2], strict=True)
    return re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]")
