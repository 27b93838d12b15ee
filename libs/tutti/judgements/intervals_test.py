"""Intervals: they cover the truth also where annotators lean and prompts differ."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from tutti.judgements.intervals import Proportion, student, win_rate

PEOPLE, EACH, PROMPTS, EFFECT = 20, 15, 100, 0.5


def crowd(
    rng: np.random.Generator, people: float, prompts: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Outcomes of 300 judgements with their annotators and prompts; deviations of both on the logit scale."""
    person = np.repeat(np.arange(PEOPLE), EACH)
    prompt = rng.permutation(np.tile(np.arange(PROMPTS), PEOPLE * EACH // PROMPTS))
    z = EFFECT + rng.normal(0, people, PEOPLE)[person] + rng.normal(0, prompts, PROMPTS)[prompt]
    return (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(float), person, prompt


def truth(deviation: float) -> float:
    drawn = np.random.default_rng(9).normal(0, deviation, 400_000)
    return float((1 / (1 + np.exp(-(EFFECT + drawn)))).mean())


def wilson(outcomes: npt.NDArray[np.float64], z: float = 1.96) -> tuple[float, float]:
    """The interval that takes judgements for independent (Wilson 1927)."""
    n, p = len(outcomes), float(outcomes.mean())
    centre, scale = p + z * z / 2 / n, 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return (centre - half) / scale, (centre + half) / scale


@pytest.mark.parametrize(("people", "prompts"), [(0.6, 0.0), (0.6, 1.0)])
def test_intervals_cover_where_those_of_independent_judgements_do_not(people: float, prompts: float) -> None:
    rng, real = np.random.default_rng(0), truth(math.hypot(people, prompts))
    covered, independent = 0, 0
    for _ in range(1000):
        outcomes, person, prompt = crowd(rng, people, prompts)
        found = win_rate(outcomes, [person, prompt])
        low, high = wilson(outcomes)
        covered += found.low <= real <= found.high
        independent += low <= real <= high
    assert covered >= 930
    assert independent <= 880


def test_independent_judgements_are_covered_too() -> None:
    rng, real = np.random.default_rng(1), truth(0.0)
    found = []
    for _ in range(1000):
        outcomes, person, prompt = crowd(rng, 0, 0)
        found.append(win_rate(outcomes, [person, prompt]))
    assert sum(each.low <= real <= each.high for each in found) >= 930


@pytest.mark.parametrize(
    ("freedom", "exact"), [(1, 12.7062), (2, 4.3027), (5, 2.5706), (9, 2.2622), (19, 2.0930), (100, 1.9840)]
)
def test_the_quantiles_of_students_t_are_those_of_the_tables(freedom: int, exact: float) -> None:
    assert student(0.95, freedom) == pytest.approx(exact, abs=0.002)


@pytest.mark.parametrize("outcome", [0.0, 0.5, 1.0])
def test_judgements_that_are_all_the_same_do_not_make_a_win_rate_certain(outcome: float) -> None:
    found = win_rate(np.full(40, outcome), [np.repeat(np.arange(2), 20), np.tile(np.arange(20), 2)])
    assert (found.low, found.high) == pytest.approx(wilson(np.full(20, outcome)), abs=1e-4)
    assert found.high - found.low > 0.1


def test_a_proportion_is_shown_with_its_interval_and_its_count() -> None:
    assert str(Proportion.of(13, 13)) == "100.0% (77.2% to 100.0%, n = 13)"
    assert Proportion.of(3, 10).low < 0.3 < Proportion.of(3, 10).high
    none = Proportion.of(0, 0)
    assert (none.low, none.high, none.count) == (0.0, 1.0, 0)
    assert "n = 0" in str(none)
    assert Proportion.of(10.000000001, 10).high == 1.0


def test_one_annotator_says_nothing_about_others() -> None:
    found = win_rate(np.ones(50), [np.zeros(50, np.int64), np.arange(50)])
    assert (found.mean, found.low, found.high) == (1.0, 0.0, 1.0)


def test_no_judgement_gives_no_rate() -> None:
    found = win_rate(np.zeros(0), [np.zeros(0, np.int64)])
    assert math.isnan(found.mean)
    assert (found.low, found.high, found.count) == (0.0, 1.0, 0)


def test_the_labels_of_clusters_do_not_matter() -> None:
    outcomes, person, prompt = crowd(np.random.default_rng(2), 0.6, 1.0)
    found, renamed = win_rate(outcomes, [person, prompt]), win_rate(outcomes, [person * 7 + 3, 1000 - prompt])
    assert (renamed.low, renamed.high) == pytest.approx((found.low, found.high))
