"""The pace of a gang: a rank that takes long for a leaf is named, and noise names nobody."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from tutti.model.pace import (
    LONGEST_WINDOW,
    MOST,
    RATIO,
    WINDOW,
    WINDOW_SECONDS,
    Finding,
    Pace,
    Straggler,
    stragglers,
)

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


@given(SECONDS, LEAVES, st.integers())
def test_ranks_whose_times_vary_by_less_than_the_ratio_are_not_named(
    seconds: float, leaves: list[int], seed: int
) -> None:
    draw = random.Random(seed)
    steps = [[count * seconds * draw.uniform(1.0, RATIO - 0.01) for count in leaves] for _ in range(LONGEST_WINDOW)]
    found = findings(Pace(leaves), steps)
    assert found
    assert all(each.stragglers == () for each in found)


@given(st.floats(1e-4, 0.05), st.floats(RATIO + 0.01, 5.0))
def test_a_slow_rank_of_a_fast_device_is_named_after_seconds(seconds: float, ratio: float) -> None:
    steps = [[seconds, seconds * ratio, seconds]] * LONGEST_WINDOW
    first = findings(Pace([1, 1, 1]), steps)[0]
    assert [each.rank for each in first.stragglers] == [1]
    expected = min(LONGEST_WINDOW, max(WINDOW, math.ceil(WINDOW_SECONDS / (seconds * ratio))))
    assert abs(first.step - expected) <= 1  # sums of floats


def test_a_short_pause_of_a_machine_names_nobody_though_it_is_longer_than_many_steps() -> None:
    steps = [[0.005, 0.005 + 0.02 * (at < 30)] for at in range(LONGEST_WINDOW)]
    assert all(each.stragglers == () for each in findings(Pace([1, 1]), steps))


@given(LEAVES, st.integers(0, WINDOW // 2 - 1), st.data())
def test_single_steps_that_took_long_name_nobody(leaves: list[int], outliers: int, data: st.DataObject) -> None:
    slow = data.draw(st.integers(0, len(leaves) - 1))
    steps = [[count * (0.2 + 9.0 * (rank == slow and at < outliers)) for rank, count in enumerate(leaves)]
             for at in range(WINDOW)]  # fmt: skip
    assert findings(Pace(leaves), steps) == [Finding(WINDOW, ())]


@given(st.lists(SECONDS, min_size=1, max_size=12))
def test_the_fastest_rank_is_never_named_and_so_not_all_are(seconds: list[float]) -> None:
    found = stragglers(seconds)
    assert len(found) <= min(MOST, len(seconds) - 1)
    assert all(seconds[each.rank] > min(seconds) for each in found)


def test_a_rank_that_catches_up_is_named_no_longer() -> None:
    slow, even = [0.2, 0.8, 0.2], [0.2, 0.2, 0.2]
    found = findings(Pace([1, 1, 1]), [slow] * WINDOW + [even] * WINDOW)
    assert [[each.rank for each in one.stragglers] for one in found] == [[1], []]


def test_ranks_at_the_limits_are_named() -> None:
    assert stragglers([0.5, 0.75]) == (Straggler(1, 1.5),)
    assert stragglers([0.5, 0.7499]) == ()
    assert stragglers([0.0, 1.0]) == (Straggler(1, RATIO),)
    assert stragglers([1.0]) == stragglers([]) == ()
