"""The pace of a gang: a rank that takes long for a leaf is named, and noise names nobody."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tutti.model.pace import LEAST_SECONDS, MOST, RATIO, WINDOW, Finding, Pace, Straggler, stragglers

SECONDS = st.floats(1e-4, 100.0)
LEAVES = st.lists(st.integers(1, 8), min_size=2, max_size=12)


def findings(pace: Pace, steps: list[list[float]]) -> list[Finding]:
    return [found for step, busy in enumerate(steps, start=1) if (found := pace.add(step, busy)) is not None]


@given(SECONDS, LEAVES, st.data())
def test_the_slow_rank_is_named_whatever_leaves_the_ranks_compute(
    seconds: float, leaves: list[int], data: st.DataObject
) -> None:
    slow = data.draw(st.integers(0, len(leaves) - 1))
    more = max(seconds, 0.3)
    busy = [count * (seconds + more * (rank == slow)) for rank, count in enumerate(leaves)]
    (found,) = findings(Pace(leaves), [busy] * WINDOW)
    assert [each.rank for each in found.stragglers] == [slow]
    assert abs(found.stragglers[0].ratio - (seconds + more) / seconds) < 1e-6 * found.stragglers[0].ratio
    assert found.step == WINDOW


@given(SECONDS, LEAVES, st.randoms())
def test_ranks_whose_times_vary_by_less_than_the_ratio_are_not_named(
    seconds: float, leaves: list[int], draw: random.Random
) -> None:
    steps = [[count * seconds * draw.uniform(1.0, RATIO - 0.01) for count in leaves] for _ in range(3 * WINDOW)]
    assert [each.stragglers for each in findings(Pace(leaves), steps)] == [(), (), ()]


@given(st.lists(st.floats(0.0, LEAST_SECONDS - 1e-6), min_size=2, max_size=9))
def test_differences_of_milliseconds_name_nobody(seconds: list[float]) -> None:
    assert stragglers(seconds) == ()


@given(LEAVES, st.integers(0, WINDOW // 2 - 1), st.data())
def test_single_steps_that_took_long_name_nobody(leaves: list[int], outliers: int, data: st.DataObject) -> None:
    slow = data.draw(st.integers(0, len(leaves) - 1))
    steps = [[count * (0.1 + 9.0 * (rank == slow and at < outliers)) for rank, count in enumerate(leaves)]
             for at in range(WINDOW)]  # fmt: skip
    assert findings(Pace(leaves), steps) == [Finding(WINDOW, ())]


@given(st.lists(SECONDS, min_size=1, max_size=12))
def test_the_fastest_rank_is_never_named_and_so_not_all_are(seconds: list[float]) -> None:
    found = stragglers(seconds)
    assert len(found) <= min(MOST, len(seconds) - 1)
    assert all(seconds[each.rank] > min(seconds) for each in found)


def test_a_rank_that_catches_up_is_named_no_longer() -> None:
    slow, even = [0.1, 0.4, 0.1], [0.1, 0.1, 0.1]
    found = findings(Pace([1, 1, 1]), [slow] * WINDOW + [even] * WINDOW)
    assert [[each.rank for each in one.stragglers] for one in found] == [[1], []]


def test_ranks_at_the_limits_are_named() -> None:
    assert stragglers([0.5, 0.75]) == (Straggler(1, 1.5),)
    assert stragglers([0.5, 0.7499]) == ()
    assert stragglers([0.0, 1.0]) == (Straggler(1, RATIO),)
    assert stragglers([1.0]) == stragglers([]) == ()
