"""Rows: documents as whole pieces that are fitted into rows, with as little padding as can be found soon.

Best-fit decreasing, as Ding et al. 2024 ("Fewer Truncations Improve Language Modeling") use it: what is longer than a
row is cut into whole rows and a rest; what is left is put, the longest first, where it leaves least room. Promises: a
document that fits into a row is not cut; each piece begins with the token that its next one is predicted from, so each
token of a document, and the `eos` behind it, is a target exactly once; a function of the lengths in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tutti.native.arrays import np
from tutti.tokenization.documents import Numbers

WINDOW_TOKENS = 1 << 22
"""Documents of so many tokens are fitted together. Part of what a dataset is: another number gives other rows."""

LEAST_ROWS = 16
"""Rows that a window fills at least, however long they are."""

_SMALLEST = 2  # what it is predicted from, and a token


@dataclass(frozen=True)
class Rows:
    """`count` rows of context + 1 places; all arrays are int64, pieces come by row and column.

    A document has an `eos` before and behind it. Piece k is its tokens from `begins[k]` on, `sizes[k]` of them, of
    document `documents[k]`, and lies from `columns[k]` on in row `rows[k]`.
    """

    documents: Numbers
    begins: Numbers
    sizes: Numbers
    rows: Numbers
    columns: Numbers
    count: int

    @cached_property
    def lengths(self) -> Numbers:
        """int64 [count]: the places of each row that are taken."""
        found = np.zeros(self.count, np.int64)
        np.add.at(found, self.rows, self.sizes)
        return found


def windows(lengths: Numbers, *, context: int) -> Iterator[slice]:
    """The runs of documents that are fitted together; `lengths`: tokens of each."""
    size = max(WINDOW_TOKENS, LEAST_ROWS * context)
    taken = lengths + 2
    edges = np.flatnonzero(np.diff((np.cumsum(taken) - taken) // size, prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield slice(low, high)


def fitted(lengths: Numbers, *, context: int) -> Rows:
    """The rows of some documents with so many tokens: first whole ones in the order of documents, then rests."""
    whole, rest = np.divmod(lengths + 1, context)
    long = np.repeat(np.arange(len(lengths)), whole)
    nth = np.arange(len(long)) - np.repeat(np.cumsum(whole) - whole, whole)
    some = np.flatnonzero(rest)
    sizes = rest[some] + 1
    bins = best_fit(sizes, context + 1)
    order = np.argsort(bins, kind="stable")
    some, sizes, bins = some[order], sizes[order], bins[order]
    first = np.ones(len(bins), np.bool_)
    first[1:] = bins[1:] != bins[:-1]
    before = np.cumsum(sizes) - sizes
    columns = before - before[first][bins]
    return Rows(
        documents=np.concatenate([long, some]),
        begins=np.concatenate([nth * context, whole[some] * context]),
        sizes=np.concatenate([np.full(len(long), context + 1), sizes]),
        rows=np.concatenate([np.arange(len(long)), len(long) + bins]),
        columns=np.concatenate([np.zeros(len(long), np.int64), columns]),
        count=len(long) + int(first.sum()),
    )


def best_fit(sizes: Numbers, capacity: int) -> Numbers:
    """The bin of each item, numbered from 0: the longest first, each where the least room is left that it fits into.

    The rooms that bins have are the bits of one integer, so an item takes a few operations on capacity / 64 words.
    """
    bins = np.empty(len(sizes), np.int64)
    by_room: dict[int, list[int]] = {}
    rooms = made = 0
    order = np.argsort(-sizes, kind="stable")
    for item, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if fits := rooms >> size:
            room = size + (fits & -fits).bit_length() - 1
            place = by_room[room].pop()
            if not by_room[room]:
                rooms ^= 1 << room
        else:
            place, room, made = made, capacity, made + 1
        bins[item] = place
        if room - size >= _SMALLEST:
            by_room.setdefault(room - size, []).append(place)
            rooms |= 1 << room - size
    return bins
