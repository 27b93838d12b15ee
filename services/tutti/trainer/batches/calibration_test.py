"""Accuracy and calibration of margins, by hand."""

import numpy as np
import pytest

from tutti.corpus.conversations.rendered import Rendered
from tutti.trainer.batches.calibration import calibration_error, measured, temperature
from tutti.trainer.batches.comparisons import Comparison

ROW = Rendered(np.zeros(0, np.int32), np.zeros(0, np.bool_))


def pairs(*of: tuple[float, float]) -> list[Comparison]:
    return [Comparison("p", (ROW, ROW), first, weight, judged=first) for first, weight in of]


def judged(*shares: float) -> list[Comparison]:
    """Pairs whose posteriors are far more certain than their judgements."""
    return [Comparison("p", (ROW, ROW), float(share > 0.5), 1.0, judged=share) for share in shares]


def test_accuracy_is_by_weight_a_margin_of_zero_counts_half_and_ties_not_at_all() -> None:
    judged = pairs((0.9, 1), (0.1, 2), (0.8, 1), (0.5, 9))
    found = measured(np.array([1.0, 1.0, 0.0, 5.0]), judged)
    assert found.named["accuracy"] == pytest.approx((1 + 0.5) / 4)
    assert found.named["decided_pairs"] == 3
    assert "accuracy" not in measured(np.array([1.0]), pairs((0.5, 1))).named


def test_the_loss_is_that_of_the_objective() -> None:
    found = measured(np.array([0.0, 2.0]), pairs((0.9, 2), (1.0, 1)))
    assert found.nats == pytest.approx(2 * np.log(2) + np.log1p(np.exp(-2.0)))
    assert found.tokens == 2


def test_a_promise_that_holds_has_no_calibration_error() -> None:
    promised = np.array([0.72, 0.78, 0.31])
    assert calibration_error(promised, promised, np.ones(3)) == 0
    # Within a bin promises and judgements are averaged first.
    assert calibration_error(promised, np.array([0.78, 0.72, 0.31]), np.ones(3)) == pytest.approx(0)
    assert calibration_error(np.array([0.95, 0.95]), np.array([0.5, 0.9]), np.array([1.0, 3.0])) == pytest.approx(0.15)
    assert calibration_error(np.array([1.0]), np.array([1.0]), np.ones(1)) == 0


def test_promises_are_compared_with_judgements_and_not_with_posteriors() -> None:
    margins = np.log([0.8 / 0.2, 0.3 / 0.7])
    assert measured(margins, judged(0.8, 0.3)).named["calibration_error"] == pytest.approx(0)


@pytest.mark.parametrize("off", [0.25, 1.0, 3.0])
def test_a_temperature_undoes_the_factor_by_which_margins_are_too_large(off: float) -> None:
    shares = np.random.default_rng(0).uniform(0.05, 0.95, 1000)
    found = temperature(off * np.log(shares / (1 - shares)), judged(*shares))
    assert found == pytest.approx(off, rel=0.05)


def test_margins_that_predict_nothing_are_brought_down_and_a_few_pairs_decide_little() -> None:
    random = np.random.default_rng(0)
    assert temperature(random.normal(0, 3, 1000), judged(*random.integers(0, 2, 1000))) > 8
    assert temperature(np.zeros(5), judged(1, 1, 0, 1, 0)) == 1.0
    assert 0.5 < temperature(np.array([1.0, -1.0]), judged(1, 0)) < 1
