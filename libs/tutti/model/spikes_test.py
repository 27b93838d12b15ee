"""Spikes: which steps are one, what a watch remembers, and that a resumed training decides the same."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tutti.model.results import Scalars
from tutti.model.spec import SpecError
from tutti.model.spikes import FEWEST, LONGEST, WINDOW, Spike, Watch
from tutti.records.canonical import canonical_json, parse_json

Steps = Sequence[tuple[float, float]]
numbers = st.floats(0.01, 20.0)
curves = st.lists(st.tuples(numbers, numbers), max_size=3 * WINDOW)


def told(steps: Steps, watch: Watch | None = None, first: int = 1) -> tuple[Watch, list[Spike]]:
    """The watch after these steps, and the spikes that ended in them."""
    watch, found = watch or Watch(), []
    for step, (loss, norm) in enumerate(steps, start=first):
        watch, ended = watch.after(step, loss, norm)
        found += [ended] if ended else []
    return watch, found


def level(
    steps: int, loss: float = 3.0, norm: float = 1.0, noise: float = 0.02, seed: int = 0
) -> list[tuple[float, float]]:
    """A curve with normal noise and without a spike."""
    source = np.random.default_rng(seed)
    drawn = source.normal(size=(steps, 2)).clip(-3, 3).tolist()
    return [(loss * (1 + noise * a), norm * math.exp(0.2 * b)) for a, b in drawn]


def through_json(watch: Watch) -> Watch:
    """A watch as the next attempt reads it from a checkpoint."""
    scalars = Scalars(step=500, watch=watch)
    read = parse_json(canonical_json(scalars.to_dict()))
    assert isinstance(read, dict)
    return Scalars.from_dict(read).watch or Watch()


@settings(max_examples=30)
@given(curves, st.integers(0, 3 * WINDOW))
def test_a_training_that_is_resumed_anywhere_finds_the_same_spikes(steps: Steps, cut: int) -> None:
    watch, before = told(steps[:cut])
    watch, after = told(steps[cut:], through_json(watch), first=min(cut, len(steps)) + 1)
    assert (watch, before + after) == told(steps)


@settings(max_examples=30)
@given(curves)
def test_spikes_are_apart_in_order_and_not_too_long(steps: Steps) -> None:
    watch, found = told(steps)
    found += [open_spike] if (open_spike := watch.until(len(steps))) else []
    ends = [0, *(each for spike in found for each in (spike.first, spike.last))]
    assert ends == sorted(ends)
    assert all(1 <= spike.last - spike.first + 1 <= LONGEST for spike in found)
    assert all(later.first > earlier.last for earlier, later in pairwise(found))
    assert len(watch.losses) <= WINDOW


@settings(max_examples=30)
@given(curves, st.integers(-8, 8))
def test_the_unit_of_the_loss_does_not_matter(steps: Steps, exponent: int) -> None:
    scaled = [(loss * 2.0**exponent, norm) for loss, norm in steps]
    assert told(scaled)[1] == told(steps)[1]


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(FEWEST + 1, 120), st.integers(2, 20), st.floats(1.8, 3.0))
@example(seed=235, begin=26, length=2, height=2.5)
def test_a_leap_of_the_loss_is_found_from_its_first_step_to_its_last(
    seed: int, begin: int, length: int, height: float
) -> None:
    steps = level(160, seed=seed)
    steps[begin : begin + length] = [(loss * height, norm) for loss, norm in steps[begin : begin + length]]
    _, (found,) = told(steps)
    assert (found.first, found.last) == (begin + 1, begin + length)
    assert found.loss == pytest.approx(height, rel=0.1)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(0.0, 0.08))
def test_noise_and_a_falling_loss_are_no_spike(seed: int, noise: float) -> None:
    falling = [
        (loss * (1 + 2 * math.exp(-at / 40)), norm) for at, (loss, norm) in enumerate(level(300, 2.0, 1.0, noise, seed))
    ]
    assert told(falling) == (told(falling)[0], [])


def test_a_small_leap_must_repeat_itself() -> None:
    quiet = level(60)
    for height, alone, twice, thrice in ((2.6, 1, 1, 1), (1.3, 0, 1, 1), (1.21, 0, 0, 1), (1.15, 0, 0, 0)):
        found = [len(told([*quiet, *[(3.0 * height, 1.0)] * times, *quiet])[1]) for times in (1, 2, 3)]
        assert found == [alone, twice, thrice]


def test_a_small_leap_is_found_only_above_the_noise() -> None:
    leap = [(3.0 * 1.3, 1.0)] * 2
    assert told([*level(60, noise=0.02), *leap, (3.0, 1.0)])[1]
    assert not told([*level(60, noise=0.2), *leap, (3.0, 1.0)])[1]


def test_a_leap_of_the_gradient_norm_alone_is_a_spike() -> None:
    _, (found,) = told([*level(60), (3.0, 30.0), (3.0, 25.0), (3.0, 1.0)])
    assert (found.first, found.last) == (61, 62)
    assert found.norm > 20 > 2 > found.loss


def test_a_leap_of_the_gradient_norm_in_one_step_is_noise() -> None:
    assert not told([*level(60), (3.0, 30.0), *level(10), (3.0, 30.0), (3.0, 1.0)])[1]


def test_the_first_steps_are_compared_with_nothing() -> None:
    assert not told([*level(FEWEST - 1), (30.0, 1.0), (3.0, 1.0)])[1]
    assert told([*level(FEWEST), (30.0, 1.0), (3.0, 1.0)])[1]


def test_a_level_that_stays_is_a_spike_once_and_then_what_steps_are_compared_with() -> None:
    watch, (found,) = told([*level(60), *level(200, loss=9.0)])
    assert (found.first, found.last) == (61, 60 + LONGEST)
    assert not watch.in_spike
    assert min(watch.losses) > 8.0


def test_the_steps_of_a_spike_are_not_what_others_are_compared_with() -> None:
    watch, _ = told([*level(60), *[(9.0, 1.0)] * 20])
    assert watch.in_spike
    assert max(watch.losses) < 4.0
    assert watch.until(80) == Spike(61, 80, watch.loss, watch.norm)


@pytest.mark.parametrize(
    "fields",
    [
        {"losses": [1.0] * (WINDOW + 1), "norms": [1.0] * (WINDOW + 1)},
        {"losses": [1.0], "norms": []},
        {"losses": [math.inf], "norms": [1.0]},
        {"losses": ["a"], "norms": [1.0]},
        {"losses": 3, "norms": 3},
        {"first": -1},
    ],
)
def test_what_no_watch_remembers_is_refused(fields: dict[str, object]) -> None:
    written = Watch().to_dict() | fields
    with pytest.raises(SpecError):
        Watch.from_json(written)
