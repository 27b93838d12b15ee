"""One order of additions, whoever holds the leaves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.tree import PIECE, Node, PartialSums, TreeError, canonical_nodes, covers, levels, tree_sum


def written(left: str, right: str) -> str:
    return f"({left}+{right})"


def whole(leaves: int) -> str:
    sums = PartialSums(leaves, written)
    for leaf in range(leaves):
        sums.add(Node(0, leaf), str(leaf))
    return sums.total()


def test_the_tree_of_six_leaves() -> None:
    assert whole(6) == "(((0+1)+(2+3))+(4+5))"


def test_a_lone_left_child_moves_up() -> None:
    assert whole(5) == "(((0+1)+(2+3))+4)"


@st.composite
def spread_leaves(draw: st.DrawFn) -> list[list[int]]:
    """Leaves dealt to holders in any way, each holder's in any order."""
    leaves = draw(st.integers(1, 40))
    holders = draw(st.lists(st.integers(0, 4), min_size=leaves, max_size=leaves))
    order = draw(st.permutations(range(leaves)))
    return [[leaf for leaf in order if holders[leaf] == holder] for holder in range(5)]


@given(spread_leaves(), st.randoms())
def test_any_holders_in_any_order_make_the_same_additions(held: list[list[int]], random: object) -> None:
    leaves = sum(map(len, held))
    parts: list[tuple[Node, str]] = []
    for own in held:
        sums = PartialSums(leaves, written)
        for leaf in own:
            sums.add(Node(0, leaf), str(leaf))
        assert set(sums.nodes) == set(canonical_nodes(own, leaves))
        parts += sums.nodes.items()
    random.shuffle(parts)  # type: ignore[attr-defined]
    total = PartialSums(leaves, written)
    for node, value in parts:
        total.add(node, value)
    assert total.total() == whole(leaves)


@given(spread_leaves())
def test_canonical_nodes_cover_exactly_the_leaves_held(held: list[list[int]]) -> None:
    leaves = sum(map(len, held))
    for own in held:
        assert [leaf for node in canonical_nodes(own, leaves) for leaf in covers(node, leaves)] == sorted(own)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=70))
def test_the_sum_of_a_vector_is_the_tree_over_its_elements(values: list[float]) -> None:
    sums: PartialSums[float] = PartialSums(len(values), lambda left, right: left + right)
    for leaf, value in enumerate(values):
        sums.add(Node(0, leaf), value)
    assert tree_sum(np.array(values)).hex() == sums.total().hex()


def test_control_adding_in_a_row_gives_other_bits() -> None:
    values = np.random.default_rng(1).standard_normal(64)
    in_a_row = 0.0
    for value in values:
        in_a_row += float(value)
    assert tree_sum(values) != in_a_row


def test_the_sum_of_nothing_is_zero() -> None:
    assert tree_sum(np.empty(0)) == 0.0


@given(st.integers(1, 10_000))
def test_the_root_covers_all_leaves(leaves: int) -> None:
    assert covers(Node(levels(leaves), 0), leaves) == range(leaves)


def test_a_leaf_cannot_be_added_twice() -> None:
    sums = PartialSums(4, written)
    sums.add(Node(0, 2), "2")
    with pytest.raises(TreeError, match="twice"):
        sums.add(Node(0, 2), "2")


@pytest.mark.parametrize("node", [Node(0, 4), Node(1, 2), Node(2, 1), Node(0, -1), Node(-1, 0)])
def test_a_node_outside_the_tree_is_refused(node: Node) -> None:
    with pytest.raises(TreeError, match="not in a tree of 4"):
        PartialSums(4, written).add(node, "value")


def test_a_tree_has_at_least_one_leaf() -> None:
    with pytest.raises(TreeError, match="0 leaves"):
        PartialSums(0, written)


def test_the_length_of_a_piece_is_fixed_because_every_digest_depends_on_it() -> None:
    assert PIECE == 16_384


def test_a_sum_with_missing_leaves_has_no_total() -> None:
    sums = PartialSums(3, written)
    sums.add(Node(0, 0), "0")
    with pytest.raises(TreeError, match="not complete"):
        sums.total()


def test_a_waiting_left_sibling_can_be_added_onto() -> None:
    sums = PartialSums(8, written)
    for leaf in (1, 2, 4):
        sums.add(Node(0, leaf), str(leaf))
    assert sums.take_left_sibling(2) is None
    assert [sums.take_left_sibling(3), sums.take_left_sibling(5)] == ["2", "4"]
    assert sums.nodes == {Node(0, 1): "1"}
