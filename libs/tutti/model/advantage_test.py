"""Advantages: against the sum that defines them, and whitened over a batch."""

import numpy as np
import pytest

from tutti.model.advantage import generalised, whitened

VALUES = np.array([0.2, -0.4, 0.9, 0.1])


@pytest.mark.parametrize(("discount", "trace"), [(1.0, 0.95), (0.9, 0.5), (1.0, 0.0), (1.0, 1.0)])
def test_an_advantage_is_the_weighted_sum_of_later_errors(discount: float, trace: float) -> None:
    found = generalised(VALUES, 2.0, discount=discount, trace=trace)
    following = np.append(VALUES[1:], 0.0)
    errors = np.array([0.0, 0.0, 0.0, 2.0]) + discount * following - VALUES
    for place in range(4):
        expected = sum((discount * trace) ** (k - place) * errors[k] for k in range(place, 4))
        assert np.isclose(found[place], expected)


def test_with_a_trace_of_one_the_return_is_the_reward() -> None:
    assert np.allclose(generalised(VALUES, 2.0, discount=1.0, trace=1.0) + VALUES, 2.0)


def test_a_batch_is_whitened_over_all_its_tokens() -> None:
    rng = np.random.default_rng(0)
    batch = [rng.normal(3, 2, size) for size in (1, 7, 4)]
    tokens = np.concatenate(whitened(batch))
    assert np.isclose(tokens.mean(), 0)
    assert np.isclose(tokens.std(), 1)
    noise = np.concatenate(whitened([each * 1e-5 for each in batch], 0.02))
    assert np.isclose(noise.mean(), 0)
    assert noise.std() < 1e-2
    assert whitened([np.zeros(3), np.zeros(2)])[0].tolist() == [0, 0, 0]
