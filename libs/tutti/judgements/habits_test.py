"""Habits are told from chance."""

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest

from tutti.judgements.habits import (
    LEAST_TIMED,
    Drift,
    Haste,
    Run,
    drift,
    hasty,
    reading_speed,
    straight,
    unread,
    worked_seconds,
)

CROWD: Counter[Hashable] = Counter({-2: 200, -1: 250, 0: 100, 1: 250, 2: 200})


def drawn(rng: np.random.Generator, count: int) -> list[Hashable]:
    return [int(each) for each in rng.choice([-2, -1, 0, 1, 2], count, p=[0.2, 0.25, 0.1, 0.25, 0.2])]


def test_who_presses_the_same_key_over_and_over_is_told() -> None:
    rng = np.random.default_rng(0)
    assert straight([1] * 40, CROWD) == Run(1, 40)
    assert straight([*drawn(rng, 100), *[-1] * 12, *drawn(rng, 100)], CROWD) == Run(-1, 12)


def test_an_independent_annotator_is_told_in_fewer_than_one_case_of_a_hundred() -> None:
    rng = np.random.default_rng(1)
    assert sum(straight(drawn(rng, 200), CROWD) is not None for _ in range(500)) < 5
    assert sum(drift([bool(each) for each in rng.random(200) < 0.75]) is not None for _ in range(1000)) < 10


@pytest.mark.parametrize("scores", [[], [0], [1, 1, 1]])
def test_few_judgements_are_no_habit(scores: list[Hashable]) -> None:
    assert straight(scores, CROWD) is None
    assert drift([True] * 20 + [False] * 19) is None


def test_whose_attention_fades_is_told() -> None:
    rng = np.random.default_rng(2)
    seen = [
        drift([bool(each) for each in np.concatenate([rng.random(100) < 0.85, rng.random(100) < 0.5])])
        for _ in range(100)
    ]
    assert sum(each is not None for each in seen) > 95
    assert drift([True] * 40 + [False] * 40) == Drift(1.0, 0.0, 40)
    assert drift([False] * 40 + [True] * 40) is None


def test_control_one_who_is_careless_all_the_time_does_not_drift() -> None:
    rng = np.random.default_rng(3)
    assert sum(drift([bool(each) for each in rng.random(200) < 0.5]) is not None for _ in range(200)) <= 2


def test_who_takes_a_quarter_of_the_time_of_the_others_is_told() -> None:
    times = {"ada": [8000] * 20, "bob": [6000] * 30, "eve": [1500] * 25}
    assert hasty(times) == {"eve": Haste(1500, 7000)}
    assert hasty(times | {"eve": [1800] * 25}) == {}


def test_few_times_and_times_without_others_tell_nothing() -> None:
    assert hasty({"eve": [1] * 100}) == {}
    assert hasty({"ada": [8000] * 20, "eve": [1] * 19}) == {}


def test_the_speed_of_reading_is_the_median_by_the_times_of_arrival() -> None:
    each = [(second * 1_000_000, 40) for second in range(LEAST_TIMED + 1)]
    assert reading_speed(each) == 40
    assert reading_speed(each[:-1]) is None  # the first to arrive says nothing
    assert reading_speed([*each, (100_000_000_000, 40)]) == 40  # a pause
    assert reading_speed([(at // 2, characters) for at, characters in each]) == 80
    assert reading_speed([(at, characters if at % 2_000_000 == 0 else 0) for at, characters in each]) is None  # skipped


def test_judgements_that_arrive_together_share_the_time_since_those_before() -> None:
    offline = [(0, 40), *[(600_000_000, 300)] * LEAST_TIMED]
    assert reading_speed(offline) == 300 * LEAST_TIMED / 600
    assert unread(reading_speed(offline)) == ""
    assert reading_speed([(0, 40)] * 100) is None


def test_a_speed_at_which_nobody_reads_is_named() -> None:
    assert [bool(unread(speed)) for speed in (None, 0.0, 60.0, 61.0, 500.0)] == [False, False, False, True, True]


def test_hours_are_between_judgements_without_what_was_no_work() -> None:
    assert worked_seconds([]) == worked_seconds([5_000_000]) == 0
    assert worked_seconds([0, 10_000_000, 10_000_000, 40_000_000]) == 40
    assert worked_seconds([0, 3_600_000_000, 3_610_000_000]) == 310
