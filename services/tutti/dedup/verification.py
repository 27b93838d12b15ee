"""Verification: the exact Jaccard similarity of pairs of documents, from their sets of shingles.

Promises: a similarity is a quotient of two counts, correctly rounded, so that .8 is 4 of 5. Memory is that of the sets
of one group of pairs: `GROUP` members and two documents.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.dedup.components import Documents
from tutti.dedup.kernel import address, native
from tutti.dedup.shingles import Counts, Names, shingles

GROUP = 1 << 20

Similarities = npt.NDArray[np.float64]


def sets(texts: pa.Array) -> tuple[Names, Counts]:
    """The shingles of each text, ascending and each once, uint64; and where each set begins, int64 [texts + 1]."""
    found, bounds = shingles(texts)
    for begin, end in pairwise(bounds.tolist()):
        found[begin:end].sort()
    library = native().library
    return distinct_by_numpy(found, bounds) if library is None else distinct_by_kernel(library, found, bounds)


def distinct_by_kernel(library: ctypes.CDLL, found: Names, bounds: Counts) -> tuple[Names, Counts]:
    """Each member of ascending runs once, and where each run begins then; in place."""
    library.distinct(address(found), address(bounds), ctypes.c_int64(len(bounds) - 1))
    return found[: bounds[-1]], bounds


def distinct_by_numpy(found: Names, bounds: Counts) -> tuple[Names, Counts]:
    new = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    new[bounds[:-1][bounds[:-1] < len(found)]] = True
    offsets = np.zeros(len(found) + 1, np.int64)
    np.cumsum(new, out=offsets[1:])
    return found[new], offsets[bounds]


def overlaps(members: Names, offsets: Counts, left: Documents, right: Documents) -> Counts:
    """The number of members that the sets left[i] and right[i] share; set k is members[offsets[k] : offsets[k + 1]]."""
    library = native().library
    if library is None:
        return overlaps_by_numpy(members, offsets, left, right)
    common = np.empty(len(left), np.int64)
    given = [np.ascontiguousarray(each) for each in (members, offsets, left, right)]
    library.overlaps(*map(address, given), ctypes.c_int64(len(left)), address(common))
    return common


def overlaps_by_numpy(members: Names, offsets: Counts, left: Documents, right: Documents) -> Counts:
    def of(document: int) -> Names:
        return members[offsets[document] : offsets[document + 1]]

    found = [len(np.intersect1d(of(a), of(b), assume_unique=True)) for a, b in zip(left, right, strict=True)]
    return np.array(found, np.int64)


class SetFile:
    """Sets of shingles in a file, by document; what is held in memory is twelve bytes a set."""

    def __init__(self, path: Path, documents: int) -> None:
        """`documents`: one more than the largest."""
        self._path = path
        self._begins = np.zeros(documents, np.int64)
        self.sizes = np.zeros(documents, np.int32)
        self._file: BinaryIO = path.open("w+b", buffering=0)
        self._end = 0

    def add(self, documents: Documents, members: Names, offsets: Counts) -> None:
        """Add one set for each document."""
        self._begins[documents] = self._end + offsets[:-1]
        self.sizes[documents] = np.diff(offsets)
        self._file.seek(8 * self._end)
        view = members.view(np.uint8).data
        while view:
            view = view[self._file.write(view) :]
        self._end += len(members)

    def read(self, documents: Documents) -> tuple[Names, Counts]:
        """The sets of documents in the given order, and where each begins."""
        offsets = np.zeros(len(documents) + 1, np.int64)
        np.cumsum(self.sizes[documents], out=offsets[1:])
        members = np.empty(offsets[-1], np.uint64)
        view, bounds, file = members.view(np.uint8).data, (8 * offsets).tolist(), self._file.fileno()
        for place, begin in enumerate(self._begins[documents].tolist()):
            os.preadv(file, [view[bounds[place] : bounds[place + 1]]], 8 * begin)
        return members, offsets

    def close(self) -> None:
        self._file.close()


def verified(
    store: SetFile, left: Documents, right: Documents, *, threshold: float
) -> Iterator[tuple[Documents, Documents, Similarities]]:
    """The pairs that are at least as similar as `threshold`, in an order that keeps pairs with common documents
    together.
    """
    small, large = (side(store.sizes[left], store.sizes[right]) for side in (np.minimum, np.maximum))
    possible = small / large >= threshold  # of sets of 1 and 2 members no more than 1 of 2 is common
    left, right = left[possible], right[possible]
    for begin, end in _groups(store.sizes, left, right):
        documents = np.unique(np.concatenate([left[begin:end], right[begin:end]]))
        members, offsets = store.read(documents)
        a, b = (np.searchsorted(documents, side[begin:end]) for side in (left, right))
        common = overlaps(members, offsets, a, b)
        sizes = np.diff(offsets)
        similarity = common / np.maximum(sizes[a] + sizes[b] - common, 1)
        found = similarity >= threshold
        yield left[begin:end][found], right[begin:end][found], similarity[found]


def _groups(sizes: npt.NDArray[np.int32], left: Documents, right: Documents) -> Iterator[tuple[int, int]]:
    """Cut pairs where their sets come to GROUP members; a set counts once for the pairs in a row that it is left of."""
    held = np.where(np.diff(left, prepend=-1) != 0, sizes[left], 0).astype(np.int64) + sizes[right]
    cuts = np.flatnonzero(np.diff(np.cumsum(held) // GROUP)) + 1
    yield from pairwise([0, *cuts.tolist(), len(left)])
