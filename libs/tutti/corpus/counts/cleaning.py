"""Cleaning: where the lines of texts lie, and what the cleaning of C4 does with each.

Pure; places are bytes of UTF-8. The kernel (statistics.c) and Python find the same.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tutti.corpus.counts import statistics
from tutti.corpus.counts.characters import characters
from tutti.corpus.counts.lines import Verdict, stripped, verdict
from tutti.corpus.texts import buffers
from tutti.native.arrays import np, npt, pa

VERDICTS = tuple(Verdict)
_KEPT = VERDICTS.index(Verdict.KEPT)
Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Numbers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Judged:
    """The lines of consecutive texts that are not blank: `bounds`, int64 [texts + 1], delimit the lines of each text.

    `spans`: int64 [lines, 2], where each begins and ends in its text; `verdicts`: places in VERDICTS.
    """

    bounds: Numbers
    spans: Numbers
    verdicts: Bytes

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """The mask of the lines that the cleaning keeps."""
        return np.equal(self.verdicts, _KEPT)


def judged(texts: pa.Array) -> Judged:
    """The lines of texts. Raises UnreadableTexts."""
    data, offsets = buffers(texts)
    library = statistics.native().library
    return by_python(data, offsets) if library is None else by_kernel(library, data, offsets)


def by_kernel(library: ctypes.CDLL, data: Bytes, offsets: Numbers) -> Judged:
    most = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
    # What is not written is never resident.
    spans, verdicts, bounds = np.empty((most, 2), np.int64), np.empty(most, np.uint8), np.zeros(len(offsets), np.int64)
    library.verdicts(
        data.ctypes.data_as(ctypes.c_void_p),
        offsets.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(len(offsets) - 1),
        characters(),
        spans.ctypes.data_as(ctypes.c_void_p),
        verdicts.ctypes.data_as(ctypes.c_void_p),
        bounds[1:].ctypes.data_as(ctypes.c_void_p),
    )
    count = int(bounds[-1])
    return Judged(bounds, spans[:count], verdicts[:count])


def by_python(data: Bytes, offsets: Numbers) -> Judged:
    bounds, spans, verdicts = [0], list[tuple[int, int]](), list[int]()
    for first, last in pairwise(offsets.tolist()):
        at = 0
        for line in data[first:last].tobytes().split(b"\n"):
            if stripped(text := line.decode()):
                spans.append((at, at + len(line)))
                verdicts.append(VERDICTS.index(verdict(text)))
            at += len(line) + 1
        bounds.append(len(spans))
    found = np.array(spans, np.int64).reshape(-1, 2)
    return Judged(np.array(bounds, np.int64), found, np.array(verdicts, np.uint8))
