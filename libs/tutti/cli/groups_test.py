"""Lists in an order in which people look for what they want, and resources as they read them."""

import json
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from click.testing import CliRunner
from google.protobuf.timestamp_pb2 import Timestamp

from tutti.cli.groups import age, aged, for_people, group, in_order, row, sorted_by
from tutti.cli.nouns import BY_PLURAL, FILTERS
from tutti.cli.output import JSON, TEXT, print_list, print_one
from tutti.client.plain import plain
from tutti.contracts.chat.v1 import Deployment, Drawing
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_PENDING
from tutti.contracts.pipeline.v1 import Run, RunFigures, RunSpec, RunTraining, Stage
from tutti.contracts.scheduler.v1 import Job, JobSpec

T = "2026-01-01T00:00"


@pytest.mark.parametrize(
    ("noun", "rows"),
    [
        (
            "runs",
            [
                {"name": "runs/c", "started_at": f"{T}:00Z"},
                {"name": "runs/d", "started_at": f"{T}:00.5Z"},
                {"name": "runs/a", "started_at": f"{T}:01Z"},
                {"name": "runs/b", "started_at": None},
            ],
        ),
        ("datasets", [{"name": "datasets/a"}, {"name": "datasets/b"}]),
        ("checkpoints", [{"name": f"c/{step}", "job": "j", "line": 0, "step": step} for step in (9, 10)]),
    ],
)
def test_what_began_last_is_last(noun: str, rows: list[dict[str, object]]) -> None:
    assert in_order(BY_PLURAL[noun], rows[::-1]) == rows


def test_runs_are_sorted_by_a_figure_of_their_training_and_those_without_it_are_last() -> None:
    trainings = [RunTraining(job="jobs/a", step=9, bits_per_byte=bits) for bits in (2.5, None, 1.5)]
    runs = [Run(name=f"runs/{at}", figures=RunFigures(training=told)) for at, told in enumerate(trainings)]
    rows = [row(BY_PLURAL["runs"], run, {}) for run in [*runs, Run(name="runs/none")]]
    best = [each["name"] for each in sorted_by(rows, "bits_per_byte")]
    assert best == ["runs/2", "runs/0", "runs/1", "runs/none"]
    assert [each["name"] for each in sorted_by(rows, "-bits_per_byte")] == ["runs/0", "runs/2", "runs/1", "runs/none"]
    assert sorted_by(rows, "-name")[0]["name"] == "runs/none"
    assert sorted_by([], "anything") == []
    with pytest.raises(click.UsageError, match="bits_per_byte"):
        sorted_by(rows, "bits")


def test_a_job_has_no_loss_before_its_first_step(capsys: pytest.CaptureFixture[str]) -> None:
    noun, spec = BY_PLURAL["jobs"], JobSpec(steps=9, training="{}")
    jobs = [Job(name="jobs/a", spec=spec), Job(name="jobs/b", spec=spec, step=1, loss=2.5)]
    rows = [row(noun, each, {}) for each in jobs]
    assert [each["loss"] for each in rows] == [None, 2.5]
    print_list(rows, ("name", "loss"), TEXT, nothing="")
    assert capsys.readouterr().out.splitlines()[1:] == ["jobs/a     -", "jobs/b   2.5"]


def test_the_recipe_of_a_run_is_a_line_a_key_for_people_and_as_it_was_for_scripts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noun, recipe = BY_PLURAL["runs"], '{"name":"café","train":{"steps":20}}'
    found = row(noun, Run(name="runs/a", spec=RunSpec(recipe=recipe, title="café")), {})
    print_one(for_people(noun, found), TEXT)
    told = capsys.readouterr().out.partition("recipe ")[2].splitlines()
    assert [line.strip() for line in told] == ["{", '"name": "café",', '"train": {', '"steps": 20', "}", "}"]
    print_one(found, JSON)
    assert json.loads(capsys.readouterr().out)["spec"]["recipe"] == recipe
    without = row(noun, Run(name="runs/b", spec=RunSpec(title="b")), {})
    assert for_people(noun, without).items() <= without.items()


def test_people_see_a_line_for_each_stage_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    began, ended = (Timestamp(seconds=1_767_225_600 + at) for at in (0, 75))
    common: Any = {"started_at": began, "ended_at": ended, "manifest_key": "a/long/key"}
    stages = [
        Stage(name="ingest", state=STATE_DONE, resource="ingests/a", summary="7 documents", **common),
        Stage(name="filter", state=STATE_DONE, reused=True, resource="filters/b", summary="6 chosen", **common),
        Stage(name="dedup", state=STATE_FAILED, resource="dedups/c", reason="no disk", summary="old", **common),
        Stage(name="train", state=STATE_PENDING),
    ]
    print_one(for_people(BY_PLURAL["runs"], row(BY_PLURAL["runs"], Run(name="runs/a", stages=stages), {})), TEXT)
    assert [line[12:] for line in capsys.readouterr().out.splitlines()[1:5]] == [
        "ingest  done     1 min 15 s  ingests/a  7 documents",
        "filter  reused               filters/b  6 chosen",
        "dedup   failed   1 min 15 s  dedups/c   no disk",
        "train   pending",
    ]


def test_people_see_how_long_ago_something_began_and_a_history_with_its_times() -> None:
    figures = ("step", "loss", "bits_per_byte")
    assert aged(BY_PLURAL["runs"]) == ("name", "state", "title", *figures, "age", "reason")
    now = datetime(2026, 1, 3, tzinfo=UTC)
    ages = {"2026-01-02T23:59:20Z": "40s", "2026-01-02T23:30:00Z": "30m", "2026-01-01T00:00:00Z": "2d"}
    assert {began: age({"started_at": began}, now) for began in ages} == ages
    assert age({"started_at": None}, now) == "-"
    job = row(BY_PLURAL["jobs"], Job(name="jobs/x", history=["a", "b"], spec=JobSpec(training="{}")), {})
    job["history_times"] = ["1970-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z"]
    shown = for_people(BY_PLURAL["jobs"], job)["history"]
    assert shown == [f"{'-':20}  a", "2026-01-01T00:00:00Z  b"]


def test_people_see_a_temperature_of_zero() -> None:
    shown = for_people(BY_PLURAL["deployments"], plain(Deployment(sampling=Drawing(temperature=0, top_p=0.5))))
    assert shown["sampling"] == "temperature 0, top_p 0.5"
    assert for_people(BY_PLURAL["deployments"], plain(Deployment()))["sampling"] is None


def test_a_state_is_coloured_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed() -> str:
        print_list([{"state": "failed"}], ("state",), TEXT, nothing="")
        return capsys.readouterr().out

    assert printed() == "state\nfailed\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b[31mfailed" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed() == "state\nfailed\n"


@pytest.mark.parametrize("noun", BY_PLURAL)
def test_the_help_of_a_list_names_the_fields_that_it_can_be_filtered_by(noun: str) -> None:
    shown = CliRunner().invoke(group(BY_PLURAL[noun]), ["ls", "--help"])
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.output.split())
    assert ", ".join(FILTERS[noun]) in words
    assert ("fields:" in words) == bool(FILTERS[noun])
