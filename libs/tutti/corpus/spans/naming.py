"""Naming: ranks for records that come sorted, a batch at a time.

A group is a set of suffixes that were equal so far; it owns as many neighbouring places of the final order as it has
members, and its rank is the first of them. Sorting a group by what follows splits it; members that are alone have
found their place for good. Source: Larsson and Sadakane, "Faster suffix sorting" (2007), section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tutti.native.arrays import np, npt

Ranks: TypeAlias = "npt.NDArray[np.uint32]"


@dataclass(frozen=True, slots=True)
class Named:
    """Suffixes by their positions, each with its new rank; `alone`: no other has the same."""

    positions: Ranks
    ranks: Ranks
    alone: npt.NDArray[np.bool_]


class Naming:
    """Names the records of one sorted pass, however it was cut into batches."""

    def __init__(self) -> None:
        self._held: tuple[npt.NDArray[Any], ...] = ()
        self._last: tuple[int, int] | None = None  # group and key of the last record that was named
        self._place = self._rank = 0  # the place behind it, its rank

    def feed(self, groups: npt.NDArray[Any], keys: npt.NDArray[Any], positions: npt.NDArray[Any]) -> Named:
        """Records in ascending order of (group, key), at least one; the last is held until its successor is known."""
        if self._held:
            groups, keys, positions = map(np.concatenate, zip(self._held, (groups, keys, positions), strict=True))
        self._held = groups[-1:].copy(), keys[-1:].copy(), positions[-1:].copy()
        return self._name(groups, keys, positions, last_too=False)

    def finish(self) -> Named:
        """Name the record that is still held."""
        if not self._held:
            nothing = np.empty(0, np.uint32)
            return Named(nothing, nothing, np.empty(0, np.bool_))
        return self._name(*self._held, last_too=True)

    def _name(
        self, groups: npt.NDArray[Any], keys: npt.NDArray[Any], positions: npt.NDArray[Any], *, last_too: bool
    ) -> Named:
        count = len(keys)
        opens = np.ones(count + 1, np.bool_)  # a group; one more stands behind the last
        splits = np.ones(count + 1, np.bool_)  # from the key before
        opens[1:-1] = groups[1:] != groups[:-1]
        splits[1:-1] = opens[1:-1] | (keys[1:] != keys[:-1])
        if self._last is not None:
            opens[0] = int(groups[0]) != self._last[0]
            splits[0] = opens[0] or int(keys[0]) != self._last[1]
        index = np.arange(count)
        begin = np.maximum.accumulate(np.where(opens[:-1], index, -1))
        places = np.where(begin >= 0, groups.astype(np.int64) + index - begin, self._place + index)
        head = np.maximum.accumulate(np.where(splits[:-1], index, -1))
        ranks = np.where(head >= 0, places[head], self._rank)
        alone = splits[:-1] & splits[1:]
        until = count if last_too else count - 1
        if until:
            self._last = int(groups[until - 1]), int(keys[until - 1])
            self._place, self._rank = int(places[until - 1]) + 1, int(ranks[until - 1])
        return Named(positions[:until].astype(np.uint32), ranks[:until].astype(np.uint32), alone[:until])
