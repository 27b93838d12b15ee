"""Krippendorff's alpha against values that can be computed by hand or are published."""

import random

import pytest

from tutti.judgements.agreement import alpha

PUBLISHED = (
    (0, 0, 0, 0, 0, 3, 4, 1, 2, 1, 1, 3, 3, 0, 3),
    (1, 0, 2, 1, 3, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 2, 1, 3, 4, 4, 0, 2, 1, 1, 3, 3, 0, 4),
)
"""Three observers of fifteen units, 0 where one gave no value; alpha is .811 with the interval metric."""


def test_the_published_example_has_its_published_value() -> None:
    units = [[float(score) for score in unit if score] for unit in zip(*PUBLISHED, strict=True)]
    assert alpha(units) == pytest.approx(0.811, abs=5e-4)


def test_full_agreement_is_one_and_opposition_is_below_zero() -> None:
    assert alpha([[-2, -2], [2, 2], [0, 0, 0]]) == 1.0
    opposed = alpha([[-2, 2], [2, -2]])
    assert opposed is not None
    assert opposed < 0


def test_chance_is_about_zero() -> None:
    source = random.Random(1)
    found = alpha([[source.choice((-2, -1, 0, 1, 2)) for _ in range(3)] for _ in range(4000)])
    assert found is not None
    assert abs(found) < 0.03


@pytest.mark.parametrize("units", [[], [[1.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_there_is_none_where_nothing_can_be_compared(units: list[list[float]]) -> None:
    assert alpha(units) is None
