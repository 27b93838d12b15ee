"""The list of runs: each page is a part of one order, and what is asked for is all that it has."""

import json
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_RUNNING
from tutti.contracts.pipeline.v1 import Run, RunFigures, RunSpec, RunTraining, Stage
from tutti.contracts.scheduler.v1 import Job, JobSpec
from tutti.pipeline.pages.workbench import COLUMNS, ROWS, Question, ordered, runs_view
from tutti.pipeline.runs import progress
from tutti.report.comparing import training_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STATES = (STATE_RUNNING, STATE_DONE, STATE_FAILED, STATE_CANCELLED)
FIGURE = st.none() | st.floats(0, 9) | st.just(float("nan"))


def run(at: int, title: str = "a", bits: float | None = None, *, state: int = STATE_DONE, **recipe: object) -> Run:
    found = Run(name=f"runs/{at}", spec=RunSpec(title=title, recipe=json.dumps(recipe)), state=state)  # type: ignore[arg-type]
    found.started_at.CopyFrom(Timestamp(seconds=at))
    if bits is not None:
        found.figures.CopyFrom(RunFigures(training=RunTraining(job=f"jobs/{at}", step=at, bits_per_byte=bits)))
    return found


RUNS = st.lists(st.tuples(st.sampled_from("abc"), FIGURE, st.sampled_from(STATES)), max_size=3 * ROWS).map(
    lambda rows: [run(at, title, bits, state=state) for at, (title, bits, state) in enumerate(rows)]
)
CHANGED = ((1, "a", 1), (2, "b", 2), (3, "a", 3), (4, "a", 3))
SORTS = st.tuples(st.sampled_from(("", "-")), st.sampled_from(sorted(COLUMNS))).map("".join)


@given(RUNS, SORTS, st.sampled_from(("", "a", "b runs")), st.sampled_from(("", "failed")))
def test_the_pages_have_each_run_that_was_asked_for_once_and_in_order(
    runs: list[Run], sort: str, words: str, state: str
) -> None:
    asked = Question(words, state, sort)
    names, href = list[str](), asked.href
    while href:
        here = Question.of(dict(parse_qsl(urlsplit(href).query)))
        view = runs_view(runs, NOW, here)
        assert view.skipped == len(names)
        assert len(view.runs) <= ROWS
        names += [each.name for each in view.runs]
        href = view.next
    matching = [each for each in runs if asked.matches(each)]
    assert names == [each.name for each in ordered(matching, sort)]
    assert (view.total, view.found) == (len(runs), len(matching))
    assert sorted(names) == sorted(each.name for each in matching)


@given(RUNS, SORTS, st.lists(st.integers(0, 3 * ROWS).map(str), max_size=5, unique=True))
def test_each_address_of_a_list_has_the_selected_runs(runs: list[Run], sort: str, selected: list[str]) -> None:
    view = runs_view(runs, NOW, Question.of({"sort": sort, "tag": "x", "archived": "also"}, selected))
    for href in filter(None, (view.previous, view.next, view.unhide, view.every, *(each.href for each in view.heads))):
        assert [value for name, value in parse_qsl(urlsplit(href).query) if name == "run"] == selected
    here = {each.name.removeprefix("runs/") for each in view.runs if each.selected}
    assert sorted([*here, *view.elsewhere]) == sorted(selected)
    assert "run" not in dict(parse_qsl(urlsplit(view.unselect).query))


def test_a_run_is_found_by_a_key_that_it_changed() -> None:
    rates = [run(at, title, train={"learning_rate": rate, "steps": 9}) for at, title, rate in CHANGED]

    def found(words: str) -> list[str]:
        return [each.name for each in runs_view(rates, NOW, Question(words)).runs]

    assert found("learning_rate") == found("train.Learning") == ["runs/3"]
    assert found("a learning_rate") == ["runs/3"]
    assert found("steps") == found("b learning_rate") == []


@given(RUNS)
def test_runs_without_a_figure_are_last_in_either_order(runs: list[Run]) -> None:
    for sort in ("bits_per_byte", "-bits_per_byte"):
        known = [training_of(each).bits_per_byte for each in ordered(runs, sort) if each.figures.HasField("training")]
        real = [each for each in known if each == each]
        assert real == sorted(real, reverse=sort.startswith("-"))
        assert known[: len(real)] == real
        unknown = [not each.figures.HasField("training") for each in ordered(runs, sort)]
        assert not any(unknown[: len(real)])


def test_a_row_has_the_keys_that_changed_since_the_run_of_the_same_title_before() -> None:
    runs = [run(1, "a", seed=1, size="s"), run(2, "b", seed=9), run(3, "a", seed=2, size="s"), run(4, "a", seed=2)]
    rows = {each.name: each for each in runs_view(runs, NOW, Question()).runs}
    assert (rows["runs/1"].before, rows["runs/1"].changes) == ("", [])
    assert [(each.key, each.value, each.before) for each in rows["runs/3"].changes] == [("seed", "2", "1")]
    assert (rows["runs/4"].before, [each.key for each in rows["runs/4"].changes]) == ("runs/3", ["size"])
    many = [
        run(1, "c", keys={f"{each}": 1 for each in range(9)}),
        run(2, "c", other={f"{each}": 1 for each in range(9)}),
    ]
    assert runs_view(many, NOW, Question()).runs[0].more_changes == 18 - 4


def test_a_run_that_trains_has_the_progress_of_its_newest_job() -> None:
    found = run(1, state=STATE_RUNNING)
    assert not progress.going([found])
    found.stages.append(Stage(name="train", state=STATE_DONE, resource="jobs/a"))
    assert not progress.going([found])
    found.stages.append(Stage(name="tuned", state=STATE_RUNNING, resource="jobs/b"))
    assert progress.going([found])
    job = Job(name="jobs/b", spec=JobSpec(steps=9), step=4, loss=2.5)
    (row,) = runs_view(progress.add([found], [Job(name="jobs/a"), job]), NOW, Question()).runs
    assert (row.step, row.steps, row.loss, row.parameters) == (4, 9, 2.5, None)


@pytest.mark.parametrize(
    ("field", "seen"),
    [("state", "finished"), ("sort", "size"), ("sort", "--loss"), ("page", "0"), ("page", "²"), ("q", "a" * 201)],
)
def test_what_the_list_does_not_know_is_refused_by_the_name_of_its_field(field: str, seen: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Question.of({field: seen})
    assert refused.value.field == field


def test_more_runs_than_a_form_changes_cannot_be_selected() -> None:
    with pytest.raises(InvalidField, match=f"at most {ROWS}"):
        Question.of({}, [f"{at}" for at in range(ROWS + 1)])


def test_a_page_behind_the_last_one_is_the_last() -> None:
    runs = [run(at) for at in range(ROWS + 1)]
    view = runs_view(runs, NOW, Question(page=99))
    assert ([each.name for each in view.runs], view.previous, view.next) == (["runs/0"], "/runs", "")
