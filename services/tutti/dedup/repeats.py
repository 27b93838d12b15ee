"""Repeats: of rows that come sorted by a key, those whose key is in many documents.

A row is (key, place); a place is the number of a document, times 2^32, plus the number of a unit in it. Promises: pure;
the same whatever the cut into blocks. Memory is a block and the rows of `most` documents.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tutti.dedup.rows import Rows

Places = npt.NDArray[np.uint64]
SHIFT = np.uint64(32)
LOWER = np.uint64((1 << 32) - 1)


@dataclass(frozen=True, slots=True)
class Common:
    """In how many documents a key is, and its first place."""

    documents: int
    place: int


@dataclass(frozen=True, slots=True)
class _Counted:
    key: int
    documents: int
    place: int


def repeated(blocks: Iterable[Rows], *, most: int, keep: int) -> Iterator[Places]:
    """The places of keys that are in more than `most` documents, but for the first `keep` documents of each.

    Raises ValueError unless 0 <= keep <= most.
    """
    if not 0 <= keep <= most:
        raise ValueError(f"keep {keep} of {most}; expected 0 to {most}")
    held = np.zeros((0, 2), np.uint64)  # of the last key, in at most `most` documents so far
    known: np.uint64 | None = None  # the last key, in more
    for block in filter(len, blocks):
        if known is not None:
            size = int(np.searchsorted(block[:, 0], known, "right"))
            yield block[:size, 1]
            if size == len(block):
                continue
            block, known = block[size:], None
        rows = np.concatenate([held, block])
        groups = Groups(rows)
        chosen = (groups.documents[groups.of] > most) & (groups.rank >= keep)
        yield rows[chosen, 1]
        last = int(groups.begins[-1])
        if groups.documents[-1] > most:
            held, known = rows[:0], rows[last, 0]
        else:
            held = rows[last:]


def commonest(blocks: Iterable[Rows], count: int, *, most: int) -> list[Common]:
    """The most frequent of the keys that are in more than `most` documents, by frequency, then by first place."""
    best: list[tuple[int, int]] = []
    held: _Counted | None = None
    last = -1  # its last document

    def settle(found: _Counted | None) -> None:
        if found is not None and found.documents > most:
            heapq.heappush(best, (found.documents, -found.place))
            if len(best) > count:
                heapq.heappop(best)

    for block in filter(len, blocks):
        groups = Groups(block)
        keys, places = block[groups.begins, 0].tolist(), block[groups.begins, 1].tolist()
        for number, (key, place) in enumerate(zip(keys, places, strict=True)):
            documents = int(groups.documents[number])
            if held is not None and held.key == key:
                again = place >> 32 == last
                held = _Counted(key, held.documents + documents - again, held.place)
            else:
                settle(held)
                held = _Counted(key, documents, place)
        last = int(block[-1, 1]) >> 32
    settle(held)
    return [Common(documents, -place) for documents, place in sorted(best, reverse=True)]


class Groups:
    """Rows by key, at least one: where groups begin, how many documents are in each; of each row its group, how many
    documents of the group come before its own, and whether it is the first of its document there."""

    def __init__(self, rows: Rows) -> None:
        document = rows[:, 1] >> SHIFT
        new = np.ones(len(rows), np.bool_)
        new[1:] = rows[1:, 0] != rows[:-1, 0]
        self.first = new.copy()
        self.first[1:] |= document[1:] != document[:-1]
        seen = np.cumsum(self.first)
        self.begins = np.flatnonzero(new)
        self.of = np.cumsum(new) - 1
        self.rank = seen - seen[self.begins][self.of]
        ends = np.append(self.begins[1:], len(rows)) - 1
        self.documents = self.rank[ends] + 1
