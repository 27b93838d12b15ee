"""The view of a training: its loss is the mean of the newest steps, live and after the end."""

from datetime import UTC, datetime

import pytest

from tutti.contracts.committer.v1 import CurvePoint
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE, JOB_STATE_RUNNING, Job
from tutti.pipeline.pages.views import run_view, training
from tutti.pipeline.pages.workbench import run_row
from tutti.report.comparing import figures
from tutti.report.durations import seconds


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


def test_the_list_the_page_and_the_comparison_of_a_run_have_one_duration() -> None:
    """That from its start to its end, which is longer than its stages."""
    run, now = Run(name="runs/a", stages=[Stage(name="train")]), datetime(2026, 1, 1, tzinfo=UTC)
    for found, begin, end in ((run, 1_000, 1_020), (run.stages[0], 1_005, 1_010)):
        found.started_at.FromSeconds(begin)
        found.ended_at.FromSeconds(end)
    assert run_row(run, now).seconds == run_view(run, now, [], [], []).seconds == seconds(run) == 20.0
    (took,) = [row.values for row in figures([run, Run()]) if row.what == "took"]
    assert took == ("20.0 s", "-")
