"""Runs side by side."""

import json
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.pipeline.v1 import Run, RunFigures, RunSpec, RunTraining, Stage
from tutti.report.comparing import changes, figures, settings, training_of


def run(name: str, *, bits: float | None = None, **recipe: Any) -> Run:
    told = RunTraining(job=f"jobs/{name}", step=800, loss=1.75, bits_per_byte=bits, parameters=1_234_567)
    began, ended = Timestamp(seconds=1000), Timestamp(seconds=1301)
    return Run(
        name=f"runs/{name}",
        spec=RunSpec(title="tiny", recipe=json.dumps({"name": "tiny", **recipe})),
        state=STATE_DONE,
        started_at=began,
        ended_at=ended,
        stages=[Stage(name="train", started_at=began, ended_at=ended, resource=told.job)],
        figures=RunFigures(documents=268, training=told),
    )


def test_figures_are_those_that_each_run_kept_and_a_dash_where_it_has_none() -> None:
    found = [run("a", bits=1.463), run("b", bits=1.5), run("c"), Run(name="runs/old", spec=RunSpec(title="old"))]
    told = {row.what: (row.values, row.differs) for row in figures(found)}
    assert told["bits per byte"] == (("1.4630", "1.5000", "-", "-"), True)
    assert told["documents kept"] == (("268", "268", "268", "-"), True)
    assert told["tokens"] == (("-",) * 4, False)
    assert told["parameters"][0][0] == "1,234,567"
    assert told["took"][0] == ("5 min 1 s", "5 min 1 s", "5 min 1 s", "-")


def test_settings_are_rows_by_key_and_those_that_differ_are_marked() -> None:
    found = [run("a", size="tiny", train={"steps": 800, "ranks": 2}), run("b", size="tiny", train={"steps": 400})]
    assert [(row.what, row.values, row.differs) for row in settings(found)] == [
        ("size", ("tiny", "tiny"), False),
        ("train.ranks", ("2", "-"), True),
        ("train.steps", ("800", "400"), True),
    ]


def test_the_changes_of_a_run_are_the_keys_that_differ_from_the_run_before() -> None:
    before, after = run("a", size="tiny", seed=1), run("b", size="tiny", seed=2)
    assert [(each.key, each.value, each.before) for each in changes(after, before)] == [("seed", "2", "1")]
    assert changes(before, before) == []
    assert changes(after, Run(name="runs/hidden")) == []


def test_a_training_that_goes_on_is_newer_than_the_one_that_ended() -> None:
    found = run("a", bits=1.0)
    assert training_of(found).job == "jobs/a"
    found.training.CopyFrom(RunTraining(job="jobs/a", step=800, loss=9.0))
    assert training_of(found).loss == 1.75
    found.training.CopyFrom(RunTraining(job="jobs/tuned", step=3, loss=9.0))
    assert training_of(found).loss == 9.0
    assert training_of(Run()).job == ""
