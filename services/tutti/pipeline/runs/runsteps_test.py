"""The steps of a run's life, one at a time: what each changes of the run and of its stages."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING
from tutti.contracts.pipeline.v1 import Run, RunFigures, RunTraining, Stage
from tutti.pipeline.plans.reading import read
from tutti.pipeline.recipes.values import Result, Reuse, Source
from tutti.pipeline.runs import transitions

RECIPE = read("name: test\nsize: tiny\ninput: {path: pages}\ntrain: {steps: 20}\n")
STAGES = ["ingest", "filter", "dedup", "tokenization", "train"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=9)
PAGES = Source("pages", "blake3:pages", "1", files=7, nbytes=700)
REUSE = Reuse("ingest", "1", {}, ("blake3:pages",))
MADE = Result("ingests/a", "ingest/manifests/a.json", "blake3:a", derivation="blake3:how")


def created(origin: str = "") -> Run:
    return transitions.created("runs/a", RECIPE, {"": PAGES}, NOW, origin)


def begun(run: Run, name: str = "ingest") -> Run:
    reads = {"documents": (MADE, Result("ingests/b", "b.json", "blake3:b", part="train"))}
    return transitions.begun(run, name, "ingests/a", REUSE, reads, "asked", "blake3:how", LATER)


def stage(run: Run, name: str) -> Stage:
    return next(each for each in run.stages if each.name == name)


def others(run: Run, name: str) -> list[Stage]:
    return [each for each in run.stages if each.name != name]


def test_a_new_run_has_every_stage_of_its_recipe_and_the_size_of_what_is_read() -> None:
    run = created()
    assert (run.state, run.started_at.ToDatetime(UTC)) == (STATE_RUNNING, NOW)
    assert [(each.name, each.kind, each.state) for each in run.stages] == [
        (name, name, STATE_PENDING) for name in STAGES
    ]
    assert [(each.input_files, each.input_bytes) for each in run.stages] == [(7, 700), *[(0, 0)] * 4]
    assert [each.input_files for each in transitions.created("runs/a", RECIPE, {}, NOW).stages] == [0] * 5


def test_an_event_has_the_stages_that_a_change_concerns_and_no_recipe() -> None:
    run = created()
    new = transitions.event(None, run)
    assert (list(new.stages), new.spec.recipe, new.spec.recipe_digest) == ([], "", RECIPE.digest())
    assert (new.name, new.state, new.started_at) == (run.name, run.state, run.started_at)
    first = begun(run)
    assert list(transitions.event(run, first).stages) == [stage(first, "ingest")]
    done = transitions.finished(first, "ingest", MADE, "7 documents", LATER)
    second = begun(done, "filter")
    assert list(transitions.event(first, second).stages) == [stage(second, "ingest"), stage(second, "filter")]
    assert list(transitions.event(second, second).stages) == []
    assert run.spec.recipe
    assert len(second.stages) == len(STAGES)


def test_a_folder_is_as_large_as_it_was_for_the_stage_that_reads_it() -> None:
    folder = Source("pages", "blake3:pages", "1")
    for reader, size in (("ingest", (7, 700)), ("filter", (0, 0)), ("unheard-of", (0, 0))):
        sized = transitions.sized(folder, created(), reader)
        assert (sized.files, sized.nbytes, sized.path) == (*size, "pages")


def test_a_run_names_the_recipe_of_the_first_of_these_runs_unless_it_is_its_own() -> None:
    assert created().spec.origin == ""
    assert created(RECIPE.digest()).spec.origin == ""
    assert created("blake3:first").spec.origin == "blake3:first"


def test_stages_are_done_in_order_and_with_the_last_the_run() -> None:
    run = created()
    for name in STAGES:
        assert run.state == STATE_RUNNING
        current = transitions.current(run)
        assert current is not None
        assert current.name == name
        run = transitions.finished(begun(run, name), name, MADE, f"{name} in words", LATER)
        done = stage(run, name)
        assert (done.state, done.reason, done.summary, done.reused) == (STATE_DONE, "", f"{name} in words", False)
        assert (transitions.result_of(done), done.ended_at.ToDatetime(UTC)) == (MADE, LATER)
    assert transitions.current(run) is None
    assert (run.state, run.ended_at.ToDatetime(UTC)) == (STATE_DONE, LATER)


def test_a_stage_that_begins_says_what_it_reads_and_was_taken_up_by_nobody_else() -> None:
    before = transitions.resumed(transitions.resumed(begun(created()), "ingest"), "ingest")
    assert stage(before, "ingest").resumptions == 2
    after = begun(before)
    ingest = stage(after, "ingest")
    assert (ingest.state, ingest.resource, ingest.reuse_key, ingest.reason) == (
        STATE_RUNNING,
        "ingests/a",
        REUSE.key,
        "asked",
    )
    assert ingest.resumptions == 0
    assert [(each.role, each.resource, each.part) for each in ingest.inputs] == [
        ("documents", "ingests/a", ""),
        ("documents", "ingests/b", "train"),
    ]
    assert ingest.started_at.ToDatetime(UTC) == LATER
    assert others(after, "ingest") == others(before, "ingest")


def test_an_earlier_result_is_marked_as_reused() -> None:
    after = transitions.reused(created(), "ingest", MADE, REUSE, {}, "in words", LATER)
    ingest = stage(after, "ingest")
    assert (ingest.state, ingest.reused, ingest.summary) == (STATE_DONE, True, "in words")
    assert (transitions.result_of(ingest), ingest.reuse_key) == (MADE, REUSE.key)


def test_figures_add_up_and_those_of_a_training_replace_those_of_the_one_before() -> None:
    first = RunTraining(job="jobs/a", step=9, loss=2.0, bits_per_byte=1.5)
    second = RunTraining(job="jobs/b", step=3, loss=1.0)
    run = created()
    told = [RunFigures(), RunFigures(documents=3), RunFigures(tokens=7), RunFigures(training=first), RunFigures()]
    for name, figures in zip(STAGES, told, strict=True):
        run = transitions.finished(begun(run, name), name, MADE, "", LATER, figures)
    assert run.figures == RunFigures(documents=3, tokens=7, training=first)
    run.state, run.stages[-1].state = STATE_RUNNING, STATE_PENDING
    tuned = transitions.reused(run, "train", MADE, REUSE, {}, "", LATER, RunFigures(training=second))
    assert tuned.figures == RunFigures(documents=3, tokens=7, training=second)


def test_results_are_those_of_stages_that_are_done() -> None:
    run = begun(transitions.reused(created(), "ingest", MADE, REUSE, {}, "", LATER), "filter")
    assert transitions.results(run) == {"ingest": MADE}
    assert transitions.results(created()) == {}


def test_a_run_without_a_filter_goes_on_with_what_was_read() -> None:
    run = Run(stages=[Stage(name=name, state=STATE_PENDING) for name in ("ingest", "dedup")])
    assert transitions.results(run) == {}
    done = transitions.finished(begun(run), "ingest", MADE, "", LATER)
    assert transitions.results(done) == {"ingest": MADE, "filter": MADE}


def test_what_a_stage_waits_for_is_its_reason() -> None:
    before = begun(created())
    after = transitions.waits(before, "ingest", "a worker")
    assert stage(after, "ingest").reason == "a worker"
    assert others(after, "ingest") == others(before, "ingest")


@pytest.mark.parametrize(("state", "reason"), [(STATE_FAILED, "ingest: why"), (STATE_CANCELLED, "why")])
def test_a_run_ends_with_the_stage_that_is_under_way(state: int, reason: str) -> None:
    before = begun(created())
    after = transitions.ended(before, state, "why", LATER)  # type: ignore[arg-type]
    assert (after.state, after.reason, after.ended_at.ToDatetime(UTC)) == (state, reason, LATER)
    ingest = stage(after, "ingest")
    assert (ingest.state, ingest.reason, ingest.ended_at.ToDatetime(UTC)) == (state, "why", LATER)
    assert others(after, "ingest") == others(before, "ingest")


def test_a_run_that_ends_between_two_stages_leaves_the_next_one_as_it_is() -> None:
    before = created()
    after = transitions.ended(before, STATE_FAILED, "why", LATER)
    assert (after.state, after.reason) == (STATE_FAILED, "ingest: why")
    assert list(after.stages) == list(before.stages)


@pytest.mark.parametrize(
    "step",
    [
        begun,
        lambda run: transitions.resumed(run, "ingest"),
        lambda run: transitions.waits(run, "ingest", "why"),
        lambda run: transitions.finished(run, "ingest", MADE, "", LATER),
        lambda run: transitions.ended(run, STATE_FAILED, "why", LATER),
    ],
)
def test_a_step_makes_another_run_and_none_of_one_that_has_ended(step: Callable[[Run], Run]) -> None:
    before = created()
    assert step(before) != before
    assert before == created()
    for state in (STATE_DONE, STATE_FAILED, STATE_CANCELLED):
        with pytest.raises(ValueError, match="has ended"):
            step(Run(name="runs/a", state=state))


def test_an_event_has_no_note_and_no_labels_where_a_run_has_none() -> None:
    run = Run(name="runs/x")
    assert not transitions.event(None, run).HasField("labels")
    run.labels.title, run.labels.note = "x", "said to nobody"
    told = transitions.event(None, run)
    assert (told.labels.title, told.labels.note) == ("x", "")
    assert run.labels.note, "the run itself is unchanged"
