"""Accuracy and calibration of margins, by hand."""

import numpy as np
import pytest

from tutti.corpus.template import Rendered
from tutti.trainer.calibration import calibration_error, measured
from tutti.trainer.comparisons import Comparison

ROW = Rendered(np.zeros(0, np.int32), np.zeros(0, np.bool_))


def pairs(*of: tuple[float, float]) -> list[Comparison]:
    return [Comparison("p", (ROW, ROW), first, weight) for first, weight in of]


def test_accuracy_is_by_weight_a_margin_of_zero_counts_half_and_ties_not_at_all() -> None:
    judged = pairs((0.9, 1), (0.1, 2), (0.8, 1), (0.5, 9))
    found = measured(np.array([1.0, 1.0, 0.0, 5.0]), judged)
    assert found.named["accuracy"] == pytest.approx((1 + 0.5) / 4)
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
