"""The canonical binary tree: the one order in which values of G leaves are added.

A partial sum is named by its node (level, position): node (0, i) is leaf i, node (l, i) covers leaves i·2^l …. Only two
siblings may be added, left + right; a node whose right sibling would lie beyond the last leaf moves up as it is. So
whoever holds whichever leaves, the same additions happen in the same order, and the sum has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tutti.native.deferred import deferred

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = deferred("numpy")

PIECE = 16_384
"""Elements of a piece. Longer sums inside one kernel depend on the number of threads; pieces are summed as a tree."""

Value = TypeVar("Value")


class Node(NamedTuple):
    """A place in the tree. Level 0 are the leaves."""

    level: int
    position: int


class TreeError(ValueError):
    """A value was added twice, or for a leaf that the tree does not have."""


def levels(leaves: int) -> int:
    """The level of the root of a tree over `leaves` leaves."""
    return (leaves - 1).bit_length()


def covers(node: Node, leaves: int) -> range:
    """The leaves below a node."""
    return range(node.position << node.level, min((node.position + 1) << node.level, leaves))


class PartialSums(Generic[Value]):
    """The partial sums of one rank: the largest canonical subtrees of its leaves."""

    def __init__(self, leaves: int, combine: Callable[[Value, Value], Value]) -> None:
        """`combine(left, right)` adds two siblings; it may reuse the left one's memory for the result."""
        if leaves < 1:
            raise TreeError(f"a tree has {leaves} leaves; expected at least one")
        self.leaves = leaves
        self.nodes: dict[Node, Value] = {}
        self._combine = combine

    def add(self, node: Node, value: Value) -> Node:
        """Add a node's value, and merge upwards as far as siblings are here. Returns the node that it became."""
        level, position = node
        if level < 0 or position < 0 or position << level >= self.leaves:
            raise TreeError(f"node {tuple(node)} is not in a tree of {self.leaves} leaves")
        while level < levels(self.leaves):
            if (position ^ 1) << level < self.leaves:
                sibling = self.nodes.pop(Node(level, position ^ 1), None)
                if sibling is None:
                    break
                value = self._combine(sibling, value) if position & 1 else self._combine(value, sibling)
            level, position = level + 1, position >> 1
        place = Node(level, position)
        if place in self.nodes:
            raise TreeError(f"node {tuple(place)} was added twice")
        self.nodes[place] = value
        return place

    def take_left_sibling(self, leaf: int) -> Value | None:
        """Remove and return the value of the leaf left of this one, so that its owner may add this leaf onto it."""
        return self.nodes.pop(Node(0, leaf - 1), None) if leaf & 1 else None

    def total(self) -> Value:
        """The value of the root. Raises TreeError while leaves are missing."""
        root = Node(levels(self.leaves), 0)
        if root not in self.nodes:
            raise TreeError(f"the sum is not complete: it has {sorted(self.nodes)} of {self.leaves} leaves")
        return self.nodes[root]


def canonical_nodes(held: Iterable[int], leaves: int) -> tuple[Node, ...]:
    """The largest subtrees that a holder of these leaves can add by itself, from left to right."""
    sums: PartialSums[int] = PartialSums(leaves, lambda left, right: left + right)
    for leaf in held:
        sums.add(Node(0, leaf), 1)
    return tuple(sorted(sums.nodes, key=lambda node: node.position << node.level))


def tree_sum(values: npt.NDArray[np.float64]) -> float:
    """The sum of a vector in tree order: the same additions as PartialSums, a level at a time. Empty is 0."""
    level: npt.NDArray[Any] = np.asarray(values, dtype=np.float64)
    while len(level) > 1:
        pairs = len(level) // 2
        added = level[0 : 2 * pairs : 2] + level[1 : 2 * pairs : 2]
        level = np.concatenate([added, level[2 * pairs :]])
    return float(level[0]) if len(level) else 0.0
