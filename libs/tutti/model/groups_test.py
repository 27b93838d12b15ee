"""Advantages of groups, and every kept rollout in one row an epoch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.groups import NOBODY, advantages, dealt


def test_a_group_of_equal_rewards_is_not_kept() -> None:
    found, kept = advantages(np.array([[1.0, 0.0, 1.0, 0.0], [0.3, 0.3, 0.3, 0.3]]))
    assert kept.tolist() == [[True] * 4, [False] * 4]
    np.testing.assert_allclose(found, [[1, -1, 1, -1], [0, 0, 0, 0]], atol=1e-3)


def test_rewards_that_hardly_differ_are_not_scaled_up() -> None:
    rewards = np.array([[0.001, 0.0, 0.001, 0.0], [1.0, 0.0, 1.0, 0.0]])
    found, kept = advantages(rewards, 0.02)
    assert kept.all()
    np.testing.assert_allclose(found, [[0.025, -0.025, 0.025, -0.025], [1.0, -1.0, 1.0, -1.0]], rtol=0.01)
    np.testing.assert_array_equal(found[1], advantages(rewards)[0][1])


@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 4),
    st.data(),
    st.tuples(*[st.integers(0, 9) for _ in "abc"]),
)
def test_every_kept_rollout_is_in_one_row(
    group: int, minibatches: int, leaves: int, rows: int, data: st.DataObject, key: tuple[int, int, int]
) -> None:
    count = group * data.draw(st.integers(0, minibatches * leaves * rows // group))
    kept = np.arange(100, 100 + count)
    table = dealt(kept, group=group, minibatches=minibatches, leaves=leaves, rows=rows, key=key)
    assert table.shape == (minibatches, leaves, rows)
    assert sorted(table[table != NOBODY].tolist()) == kept.tolist()
    each = (table != NOBODY).sum((1, 2))
    assert each.max(initial=0) - each.min(initial=count) <= 1 or count == 0


def test_another_epoch_deals_in_another_order() -> None:
    one, other = (dealt(np.arange(24), group=2, minibatches=2, leaves=3, rows=4, key=(1, 2, epoch)) for epoch in (0, 1))
    assert one.tolist() != other.tolist()


def test_a_group_is_in_one_leaf_unless_a_cut_parts_it() -> None:
    table = dealt(np.arange(24), group=4, minibatches=1, leaves=3, rows=8, key=(1, 2, 3))
    assert all(sorted(row // 4) == sorted([*set(row // 4)] * 4) for row in table[0])
