"""Backoff: how long to wait after failures."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tutti.backbone.backoff import Backoff


def test_the_wait_doubles_with_each_failure_up_to_the_most() -> None:
    waits = Backoff(0.5, 3)
    assert [waits.longest(failures) for failures in range(6)] == [0.5, 0.5, 1, 2, 3, 3]
    assert waits.longest(10**6) == 3


@given(first=st.floats(0.001, 10), most=st.floats(0.001, 1000), failures=st.integers(0, 10**6), seed=st.integers())
def test_a_wait_that_is_drawn_lies_in_the_upper_half(first: float, most: float, failures: int, seed: int) -> None:
    waits = Backoff(first, most)
    drawn = waits.drawn(failures, random.Random(seed).uniform)
    assert waits.longest(failures) / 2 <= drawn <= waits.longest(failures) <= most
