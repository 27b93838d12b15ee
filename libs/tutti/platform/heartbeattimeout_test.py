"""Patience: silence has an end, a pause of our own has no victim, a missed limit doubles."""

import pytest

from tutti.platform.heartbeattimeout import Doubling, HeartbeatTimeout

SECONDS = 8.0


def looks(timeout: HeartbeatTimeout, *, start: float, end: float) -> list[float]:
    """The times between start and end at which it was over, with a look a second and not a word."""
    times = [start + number for number in range(1, int(end - start) + 1)]
    return [now for now in times if timeout.over(now, heard=False)]


def test_silence_is_over_after_its_time_and_a_word_starts_it_anew() -> None:
    timeout = HeartbeatTimeout(SECONDS, now=100.0)
    assert looks(timeout, start=100.0, end=108.0) == []
    assert not timeout.over(109.0, heard=True)
    assert looks(timeout, start=109.0, end=119.0) == [118.0, 119.0]


@pytest.mark.parametrize("pause", [3.0, 10_000.0])
def test_a_pause_of_our_own_is_nobodys_silence(pause: float) -> None:
    timeout = HeartbeatTimeout(SECONDS, now=0.0)
    assert looks(timeout, start=0.0, end=8.0) == []
    assert not timeout.over(8.0 + pause, heard=False)
    assert looks(timeout, start=8.0 + pause, end=16.0 + pause) == []
    assert timeout.over(17.0 + pause, heard=False)


def test_each_missed_limit_doubles_the_next_up_to_the_longest() -> None:
    doubling = Doubling(most=900.0)
    limits = []
    for now in range(7):
        limits.append(doubling.limit(60.0))
        doubling.missed(float(now))
    assert limits == [60, 120, 240, 480, 900, 900, 900]
    assert doubling.limit(1000.0) == 1000.0  # a longer limit of the settings holds


def test_limits_fall_back_once_all_was_well_for_the_longest_limit() -> None:
    doubling = Doubling(most=900.0)
    assert not doubling.well(0.0)
    doubling.missed(100.0)
    doubling.missed(200.0)
    assert not doubling.well(1099.0)
    assert doubling.limit(30.0) == 120.0
    assert doubling.well(1100.0)
    assert doubling.limit(30.0) == 30.0
