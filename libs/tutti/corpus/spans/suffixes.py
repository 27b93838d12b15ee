"""The suffix array of a split: all positions of its tokens, in the order of what follows them in their document.

Why a suffix array: whatever number of tokens one looks for, the positions that it follows are neighbours, so that the
longest match is found by binary search and occurrences are counted without a look at any of them. A table of n-grams
would have to extend every occurrence of boilerplate.

Why by doubling: positions that are sorted by their first h tokens are sorted by 2h with the ranks h further on as
second keys (Manber and Myers, "Suffix arrays", 1993), and positions that are alone drop out (Larsson and Sadakane,
"Faster suffix sorting", 2007). It takes as many passes as the longest repetition doubles, a copied document or one
token a million times included, and each reads and writes in order, so that files do for memory.

A document ends with the end-of-text token, and each such token is its own, smaller than all tokens and in order of
position: nothing is compared across it, and two documents that end alike are in order of position.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.corpus.sorting import Sorter
from tutti.corpus.spans.diskarray import DiskArray, pieces
from tutti.corpus.spans.naming import Named, Naming, Ranks
from tutti.native.arrays import np, npt

RECORD = ("<u8", "<u4")
PACKED = ("<u8",)
_HIGH = 32
_LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits of memory: records of the sorter, records of each of the two lists of names, items of a window."""

    records: int
    packed: int
    window: int

    @classmethod
    def within(cls, memory_bytes: int) -> Sizes:
        """Half for sorting records while names fill a quarter; then the half for sorting one list of names, and so
        on; the rest for windows."""
        return cls(
            records=memory_bytes // 2 // Sorter.record_bytes(RECORD),
            packed=memory_bytes // 2 // (Sorter.record_bytes(PACKED) + 8),
            window=max(16, memory_bytes // 1024),
        )


class Suffixes:
    """Sorts the suffixes of `tokens`, whose last item is `eos`; fewer than 2^32 of them."""

    def __init__(self, tokens: DiskArray, *, vocabulary: int, eos: int, folder: Path, memory_bytes: int) -> None:
        """Work in `folder`, on about 40 bytes of disk a token; `memory_bytes` bounds what is in memory at once."""
        self._tokens, self._eos, self._folder = tokens, eos, folder
        self._sizes = Sizes.within(memory_bytes)
        self._bits = vocabulary.bit_length()
        self._first = 64 // self._bits  # tokens in the key of the first pass
        self._made = itertools.count()

    def sorted(self) -> Iterator[npt.NDArray[np.uint32]]:
        """All positions but those of end-of-text tokens, in order, in pieces."""
        with (
            DiskArray(self._folder / "ranks", "<u4", len(self._tokens)) as ranks,
            DiskArray(self._folder / "ends", "<u4") as ends,
        ):
            tied = self._by_tokens(ranks, ends)
            depth = self._first
            while len(tied):
                tied, done = self._by_ranks(ranks, ends, tied, depth), tied
                done.remove()
                depth *= 2
            tied.remove()
            yield from self._inverted(ranks, len(ends))

    def _by_tokens(self, ranks: DiskArray, ends: DiskArray) -> DiskArray:
        """The first pass: by as many tokens as a key holds; returns the positions that are tied."""
        sorter = self._sorter(RECORD, self._sizes.records)
        for first in range(0, len(self._tokens), self._sizes.window):
            behind = min(first + self._sizes.window, len(self._tokens))
            tokens = self._tokens.read(first, behind + self._first - 1)
            end = tokens[: behind - first] == self._eos
            found = np.flatnonzero(end) + first
            ranks.scatter(found, np.arange(len(ends), len(ends) + len(found)), self._sizes.window)
            ends.append(found)
            inside = np.flatnonzero(~end)
            sorter.add(keys(tokens, inside, self._first, self._bits, self._eos), inside + first)
        groups = len(ends)  # all others are one group, behind the ends
        return self._named(sorter, ranks, lambda keys: np.full(len(keys), groups, np.uint32))

    def _by_ranks(self, ranks: DiskArray, ends: DiskArray, tied: DiskArray, depth: int) -> DiskArray:
        """Split groups that are equal in their first `depth` tokens by the next `depth`."""
        sorter = self._sorter(RECORD, self._sizes.records)
        for _, items in tied.windows(self._sizes.window):
            for first, behind in pieces(items.astype(np.int64), self._sizes.window):
                positions = items[first:behind].astype(np.int64)
                there = np.minimum(positions + depth, self._ends_of(ends, positions))
                groups = ranks.gather(positions, self._sizes.window).astype(np.uint64)
                sorter.add(groups << _HIGH | ranks.gather(there, self._sizes.window), positions)
        return self._named(sorter, ranks, lambda keys: (keys >> _HIGH).astype(np.uint32))

    def _ends_of(self, ends: DiskArray, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The ends of the documents at ascending positions."""
        mapped = np.memmap(ends.path, ends.dtype, "r")  # anew each time, so that its pages are not kept
        low, high = np.searchsorted(mapped, positions[[0, -1]].astype(ends.dtype))
        near = np.array(mapped[low : high + 1], np.int64)
        found: npt.NDArray[np.int64] = near[np.searchsorted(near, positions)]
        return found

    def _named(self, sorter: Sorter, ranks: DiskArray, groups_of: Callable[[npt.NDArray[Any]], Ranks]) -> DiskArray:
        """Write new ranks at their positions; returns the positions that are tied, in order."""
        placed, tied = (self._sorter(PACKED, self._sizes.packed) for _ in range(2))
        naming = Naming()

        def note(named: Named) -> None:
            packed = named.positions.astype(np.uint64) << _HIGH | named.ranks
            placed.add(packed[named.alone])
            tied.add(packed[~named.alone])

        for keys, positions in sorter.batches(self._sizes.window):
            note(naming.feed(groups_of(keys), keys, positions))
        note(naming.finish())
        sorter.remove()
        remaining = DiskArray(self._folder / f"tied-{next(self._made)}", "<u4")
        for kind in (placed, tied):
            for (packed,) in kind.batches(self._sizes.window):
                positions = (packed >> _HIGH).astype(np.int64)
                ranks.scatter(positions, packed & _LOW, self._sizes.window)
                if kind is tied:
                    remaining.append(positions)
            kind.remove()
        return remaining

    def _inverted(self, ranks: DiskArray, ends: int) -> Iterator[npt.NDArray[np.uint32]]:
        sorter = self._sorter(PACKED, self._sizes.packed)
        for first, window in ranks.windows(self._sizes.window):
            inside = np.flatnonzero(window >= ends)
            sorter.add(window[inside].astype(np.uint64) << _HIGH | (inside + first).astype(np.uint64))
        for (packed,) in sorter.batches(self._sizes.window):
            yield (packed & _LOW).astype(np.uint32)
        sorter.remove()

    def _sorter(self, dtypes: tuple[str, ...], capacity: int) -> Sorter:
        return Sorter(self._folder / f"sorter-{next(self._made)}", dtypes, capacity)


def keys(
    tokens: npt.NDArray[Any], places: npt.NDArray[np.int64], count: int, bits: int, eos: int
) -> npt.NDArray[np.uint64]:
    """The `count` tokens from each place on as one number that sorts as they do; zeros from the end-of-text on.

    A token takes `bits` bits, in which every id + 1 fits; the last of `tokens` ends the text.
    """
    made = np.zeros(len(places), np.uint64)
    going = np.ones(len(places), np.bool_)
    for step in range(count):
        values = tokens[np.minimum(places + step, len(tokens) - 1)]
        going &= values != eos
        made = made << np.uint64(bits) | np.where(going, values.astype(np.uint64) + np.uint64(1), np.uint64(0))
    return made
