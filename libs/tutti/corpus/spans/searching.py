"""Searching: where a query stands in the order of suffixes, for many of its places at once.

Promises: no occurrence is ever walked; what is known to be equal is not compared again (Manber and Myers, "Suffix
arrays", 1993, section 3), so a place costs a binary search and about the length of its longest match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tutti.native.arrays import np, npt

Integers: TypeAlias = "npt.NDArray[np.int64]"

_TEXT_ENDS = -1
BELOW = -2
"""A pattern that ends with it lies before all suffixes that begin with the pattern."""

ABOVE = 1 << 40
"""A pattern that ends with it lies behind them."""

UNKNOWN = 1 << 39
"""A token that no text holds."""

_STRIDE = 64
_WIDTH = 16
_CELLS = 1 << 18


@dataclass(frozen=True, slots=True)
class Text:
    """`tokens`: documents with `eos` behind each; `suffixes`: positions of all other tokens, in order."""

    tokens: npt.NDArray[Any]
    suffixes: npt.NDArray[np.uint32]
    eos: int

    def ends(self, query: Integers) -> Integers:
        """For each place of the query where the longest match that begins there ends.

        An end never lies before that of the place before, so where two places have one, so have all between them:
        they are not searched.
        """
        size = len(query)
        found = np.full(size, -1, np.int64)
        places = np.unique(np.append(np.arange(0, size, _STRIDE), size - 1)) if size else np.arange(0)
        found[places] = places + self._longest(query, places)
        while len(places) < size:
            left, right = places[:-1], places[1:]
            middle = (left + right) // 2
            wide = middle > left
            same = found[left] == found[right]
            searched = middle[wide & ~same]
            found[searched] = searched + self._longest(query, searched)
            filled = middle[wide & same]
            found[filled] = found[left[wide & same]]
            places = np.union1d(places, middle[wide])
        return found

    def ranges(self, query: Integers, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """The ranges of suffixes that begin with query[start:end]: the first one, and the one after the last."""
        first, _ = self._place(query, starts, ends, BELOW)
        behind, _ = self._place(query, starts, ends, ABOVE)
        return first, behind

    def _longest(self, query: Integers, starts: Integers) -> Integers:
        """The length in tokens of the longest match from each place; an adjacent suffix in the order has it."""
        return self._place(query, starts, np.full(len(starts), len(query)), BELOW)[1]

    def _place(self, query: Integers, starts: Integers, ends: Integers, last: int) -> tuple[Integers, Integers]:
        """The number of suffixes before query[start:end] + [last], and the length of the prefix it shares with the
        closest.
        """
        at_once = _CELLS // _WIDTH
        pieces = [
            self._search(query, starts[at : at + at_once], ends[at : at + at_once], last)
            for at in range(0, max(1, len(starts)), at_once)
        ]
        places, common = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return places, common

    def _search(self, query: Integers, starts: Integers, ends: Integers, last: int) -> tuple[Integers, Integers]:
        low, high = np.zeros(len(starts), np.int64), np.full(len(starts), len(self.suffixes), np.int64)
        with_low, with_high = np.zeros_like(low), np.zeros_like(low)
        while (left := np.flatnonzero(low < high)).size:
            middle = (low[left] + high[left]) // 2
            common, before = self._compare(
                query, starts[left], ends[left], last, self.suffixes[middle].astype(np.int64),
                np.minimum(with_low[left], with_high[left]),
            )  # fmt: skip
            above, below = left[before], left[~before]
            low[above], with_low[above] = middle[before] + 1, common[before]
            high[below], with_high[below] = middle[~before], common[~before]
        return low, np.maximum(with_low, with_high)

    def _compare(
        self, query: Integers, starts: Integers, ends: Integers, last: int, positions: Integers, known: Integers
    ) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The length of the prefix that each pattern shares with the suffix at a position, and whether the suffix is
        smaller.

        The first `known` tokens are not compared. The end-of-text token ends a suffix, below everything but BELOW.
        """
        common, before = known.copy(), np.zeros(len(starts), np.bool_)
        left, width = np.arange(len(starts)), _WIDTH
        while left.size:
            steps = common[left, None] + np.arange(width)
            text = self.tokens[np.minimum(positions[left, None] + steps, len(self.tokens) - 1)].astype(np.int64)
            text[text == self.eos] = _TEXT_ENDS
            asked = starts[left, None] + steps
            pattern = np.where(asked < ends[left, None], query[np.minimum(asked, len(query) - 1)], last)
            differs = text != pattern
            at, found = differs.argmax(axis=1), differs.any(axis=1)
            common[left] += np.where(found, at, width)
            row = np.arange(len(left))
            before[left[found]] = (text[row, at] < pattern[row, at])[found]
            left = left[~found]
            width = min(2 * width, max(_WIDTH, _CELLS // max(1, left.size)))
        return common, before
