"""The view of a training: its loss is the mean of the newest steps, live and after the end."""

import pytest

from tutti.contracts.committer.v1 import CurvePoint
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE, JOB_STATE_RUNNING, Job
from tutti.pipeline.pages.views import training


def test_a_training_shows_the_mean_it_reports_while_it_runs_and_that_of_its_curve_when_it_ended() -> None:
    newest = [CurvePoint(step=step, loss=step) for step in (1, 2, 3, 4)]
    job = Job(name="jobs/a", step=7, decided_step=4, loss=1.25, state=JOB_STATE_RUNNING)
    assert training(job, None, [], newest).loss == 1.25
    job.state = JOB_STATE_DONE
    found = training(job, None, [], newest)
    assert found.loss == pytest.approx(2.5)
    assert found.loss_of == "mean of the last 4 steps"


def test_a_training_without_a_step_has_no_loss() -> None:
    assert training(Job(name="jobs/a", state=JOB_STATE_RUNNING), None, []).loss is None
