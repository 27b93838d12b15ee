"""Reports of progress: their loss is the mean of the newest steps, the same quantity as in summaries and on pages."""

import math

import pytest

from tutti.contracts.trainer.v1 import Progress
from tutti.records.figures import NEWEST_STEPS
from tutti.trainer.agent.stepprogress import StepProgress


def step_progress() -> StepProgress:
    return StepProgress("jobs/a", 1, "nodes/a", seconds=0.0, now=0.0)


def test_the_reported_loss_is_the_mean_of_the_newest_steps_however_they_are_reported() -> None:
    at_once, one_by_one = step_progress(), step_progress()
    for step in range(1, 51):
        for each in (at_once, one_by_one):
            each.add(Progress(step=step, loss=float(step)))
        one_by_one.report(step, float(step), final=False)
    mean = sum(range(51 - NEWEST_STEPS, 51)) / NEWEST_STEPS
    for each in (at_once, one_by_one):
        each.add(Progress(step=51, loss=math.nan))
        report = each.report(51, 60.0, final=True)
        assert report is not None
        assert report.loss == pytest.approx((mean * NEWEST_STEPS - (51 - NEWEST_STEPS)) / (NEWEST_STEPS - 1))


def test_before_a_finite_loss_there_is_none() -> None:
    found = step_progress()
    found.add(Progress(step=1, loss=math.inf))
    report = found.report(1, 1.0, final=True)
    assert report is not None
    assert math.isnan(report.loss)
