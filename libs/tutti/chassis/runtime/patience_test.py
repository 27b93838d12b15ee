"""Patience: silence has an end, a pause of our own has no victim."""

import pytest

from tutti.chassis.runtime.patience import Patience

SECONDS = 8.0


def looks(patience: Patience, *, start: float, end: float) -> list[float]:
    """The times between start and end at which it was over, with a look a second and not a word."""
    times = [start + number for number in range(1, int(end - start) + 1)]
    return [now for now in times if patience.over(now, heard=False)]


def test_silence_is_over_after_its_time_and_a_word_starts_it_anew() -> None:
    patience = Patience(SECONDS, now=100.0)
    assert looks(patience, start=100.0, end=108.0) == []
    assert not patience.over(109.0, heard=True)
    assert looks(patience, start=109.0, end=119.0) == [118.0, 119.0]


@pytest.mark.parametrize("pause", [3.0, 10_000.0])
def test_a_pause_of_our_own_is_nobodys_silence(pause: float) -> None:
    patience = Patience(SECONDS, now=0.0)
    assert looks(patience, start=0.0, end=8.0) == []
    assert not patience.over(8.0 + pause, heard=False)
    assert looks(patience, start=8.0 + pause, end=16.0 + pause) == []
    assert patience.over(17.0 + pause, heard=False)
