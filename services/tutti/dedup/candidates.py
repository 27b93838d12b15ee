"""Candidates: pairs of documents that share a band.

Of the documents of a band, in their order, each is paired with the first and with the `WINDOW` before it: all pairs of
a band of up to WINDOW + 1 documents, and a number in proportion to its size for any other. What is similar in a larger
band still meets through the first, a neighbour or another band.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from tutti.dedup.rows import Rows

WINDOW = 16


def pairs(bands: Iterable[Rows]) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """(smaller, larger) documents for blocks of rows (band, document) in order; a pair may come more than once.

    Memory is that of a block: a band may reach over any number of them.
    """
    held = np.zeros((0, 2), np.uint64)
    first = np.zeros(1, np.uint64)  # of the band that the last block ended in
    for block in bands:
        rows = np.concatenate([held, block])
        new = len(held)
        starts = np.flatnonzero(np.append(True, rows[1:, 0] != rows[:-1, 0]))
        firsts = np.repeat(rows[starts, 1], np.diff(np.append(starts, len(rows))))
        if new:
            firsts[: starts[1] if len(starts) > 1 else len(rows)] = first[0]
        others = new + np.flatnonzero(firsts[new:] != rows[new:, 1])
        yield firsts[others], rows[others, 1]
        later = np.arange(new, len(rows))
        for lag in range(1, WINDOW + 1):
            # Rows are in order: who shares a band with the one `lag` before it shares it with all between.
            later = later[later >= lag]
            later = later[rows[later, 0] == rows[later - lag, 0]]
            if not len(later):
                break
            yield rows[later - lag, 1], rows[later, 1]
        band = rows[-1, 0]
        first = firsts[-1:]
        held = rows[-WINDOW:][rows[-WINDOW:, 0] == band]
