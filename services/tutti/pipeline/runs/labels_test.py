"""Labels of runs: refusals, the parts of a run that they leave alone, and lists that are filtered by them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import InvalidField, NotFound, Problem, Refused
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, ListRequest
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run, RunLabels, RunSpec, UpdateRunRequest
from tutti.pipeline.runs.labels import MOST_NOTE, MOST_TAGS, checked, labelled
from tutti.pipeline.runs.transitions import event
from tutti.pipeline.world_test import CALL, World

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NAME = "runs/a"
TAGS = st.lists(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,39}", fullmatch=True), max_size=MOST_TAGS // 2)


def change(*mask: str, **fields: object) -> UpdateRunRequest:
    return UpdateRunRequest(name=NAME, update_mask=FieldMask(paths=mask), **fields)  # type: ignore[arg-type]


def ended(**labels: object) -> Run:
    return Run(name=NAME, spec=RunSpec(title="words"), state=STATE_DONE, labels=RunLabels(**labels))  # type: ignore[arg-type]


def changed(run: Run, request: UpdateRunRequest) -> Run:
    return labelled(run, checked(request), NOW)


@given(TAGS, TAGS, TAGS)
def test_tags_are_a_set_to_which_one_adds_and_from_which_one_removes(
    first: list[str], more: list[str], fewer: list[str]
) -> None:
    run = changed(ended(), change("tags", tags=first))
    assert list(run.labels.tags) == sorted(set(first))
    fewer = [each for each in fewer if each not in more]
    if not more and not fewer:
        return
    after = changed(run, change(add_tags=more, remove_tags=fewer))
    assert list(after.labels.tags) == sorted({*first, *more} - set(fewer))
    assert changed(after, change(add_tags=more, remove_tags=fewer)) == after


def test_a_mask_replaces_the_fields_that_it_names_and_no_other() -> None:
    run = changed(ended(), change("title", "note", "tags", title="best", note="a\r\nb\n", tags=["x", "x"]))
    assert run.labels == RunLabels(title="best", note="a\nb", tags=["x"], revision=1)
    assert changed(run, change("note", title="other")).labels == RunLabels(title="best", tags=["x"], revision=2)
    archived = changed(run, change("archived", archived=True))
    assert archived.labels.archived_at.ToDatetime(UTC) == NOW
    assert changed(archived, change("archived")).labels == RunLabels(title="best", note="a\nb", tags=["x"], revision=3)


def test_the_title_of_the_recipe_is_the_title_of_a_run_without_another() -> None:
    run = changed(ended(), change("title", title="best"))
    for title in ("", "words"):
        assert changed(run, change("title", title=title)).labels.title == ""


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("update_mask", change()),
        ("update_mask", change("title", "state")),
        ("title", change("title", title="a" * 201)),
        ("title", change("title", title="two\nlines")),
        ("title", change("title", title="turned \u202e round")),
        ("note", change("note", note="a" * (MOST_NOTE + 1))),
        ("note", change("note", note="\x1b[31mred")),
        ("note", change("note", note="\x00")),
        ("tags", change("tags", tags=["Fast"])),
        ("tags", change("tags", tags=["two words"])),
        ("tags", change("tags", tags=[""])),
        ("tags", change("tags", tags=["-a"])),
        ("add_tags", change(add_tags=["a" * 41])),
        ("add_tags", change("tags", add_tags=["a"])),
        ("remove_tags", change(add_tags=["a"], remove_tags=["a"])),
        ("tags", change("tags", tags=[f"{at}" for at in range(MOST_TAGS + 1)])),
    ],
)
def test_what_cannot_be_a_label_is_refused_by_its_field(field: str, request_: UpdateRunRequest) -> None:
    with pytest.raises(InvalidField) as refused:
        checked(request_)
    assert refused.value.field == field
    assert refused.value.message.isprintable()


def test_a_note_may_have_letters_of_any_direction() -> None:
    text = "שלום \u200f עולם\tand more\n\u2067isolated\u2069 👩\u200d🔬"
    assert changed(ended(), change("note", note=text)).labels.note == text


def test_tags_that_are_added_count_with_those_that_the_run_has() -> None:
    run = ended(tags=[f"{at:02}" for at in range(MOST_TAGS)])
    with pytest.raises(InvalidField):
        changed(run, change(add_tags=["more"]))
    assert "more" in changed(run, change(add_tags=["more"], remove_tags=["00"])).labels.tags


def test_a_run_that_has_not_ended_cannot_be_archived_but_tagged() -> None:
    run = ended()
    run.state = STATE_RUNNING
    with pytest.raises(Refused) as refused:
        changed(run, change("archived", archived=True))
    assert refused.value.reason == "RUN_NOT_ENDED"
    assert changed(run, change(add_tags=["a"])).labels.tags == ["a"]
    run.state = STATE_FAILED
    assert changed(run, change("archived", archived=True)).labels.HasField("archived_at")


def test_labels_that_changed_since_they_were_read_are_not_overwritten() -> None:
    run = ended(title="other", revision=3)
    with pytest.raises(Refused) as refused:
        changed(run, change("title", title="mine", labels_revision=2))
    assert refused.value.reason == "LABELS_CHANGED"
    assert changed(run, change("title", title="mine", labels_revision=3)).labels.revision == 4
    with pytest.raises(Refused):
        changed(run, change("title", title="mine", labels_revision=0))
    assert changed(run, change("title", title="other", labels_revision=2)) == run  # the answer to a repetition


def test_an_event_has_no_note() -> None:
    run = ended(note="for us alone", tags=["a"])
    assert event(ended(), run).labels == RunLabels(tags=["a"])
    assert not event(None, Run(name=NAME)).HasField("labels")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def update(world: World, request: UpdateRunRequest) -> Run:
    found: Run = world.api.UpdateRun(request, CALL)
    return found


def listed(world: World, text: str) -> list[str]:
    return [run.name for run in world.api.ListRuns(ListRequest(filter=text), CALL).runs]


def test_labels_change_neither_what_a_run_is_nor_what_it_made(world: World) -> None:
    name = world.create(name=NAME).name
    world.finish()
    before, export = world.run(name), list(world.host.units.run(lambda unit: list(world.service.export(unit))))
    fields = {"title": "best", "note": "kept", "tags": ["a"], "archived": True}
    after = update(world, change(*fields, request_id="r", **fields))
    assert after.labels.revision == 1
    assert list(world.host.units.run(lambda unit: list(world.service.export(unit)))) == export
    assert world.run(name).revision == before.revision + 1
    for each in (before, after):
        for field in ("labels", "revision", "input_path", "training"):
            each.ClearField(field)
    assert after == before
    again = world.api.CreateRun(CreateRunRequest(again=name), CALL).run
    world.settle()
    assert all(stage.reused for stage in world.run(again.name).stages)
    assert (again.spec.title, again.HasField("labels")) == (before.spec.title, False)


def test_a_change_that_is_repeated_or_only_checked_changes_nothing_more(world: World) -> None:
    name = world.create(name=NAME).name
    checked_only = update(world, change(add_tags=["a"], validate_only=True))
    assert list(checked_only.labels.tags) == ["a"]
    assert not world.run(name).HasField("labels")
    first = update(world, change(add_tags=["a"]))
    assert update(world, change(add_tags=["a"])).revision == first.revision
    with pytest.raises(Problem):
        update(world, change("archived", archived=True, validate_only=True))
    with pytest.raises(NotFound):
        world.api.UpdateRun(UpdateRunRequest(name="runs/none", add_tags=["a"]), CALL)


def test_runs_are_listed_by_tags_title_and_whether_they_are_archived(world: World) -> None:
    for name, seed in (("runs/a", "1"), ("runs/b", "2")):
        world.create(f"train.seed={seed}", name=name)
        world.finish()
    update(world, change("title", "archived", title="best", archived=True, add_tags=["fast", "kept"]))
    update(world, UpdateRunRequest(name="runs/b", add_tags=["fast"]))
    assert listed(world, "") == listed(world, "tags:fast") == ["runs/a", "runs/b"]
    assert listed(world, "tags:fast AND tags:kept") == listed(world, "archived=true") == ["runs/a"]
    assert listed(world, "archived=false AND tags:fast") == ["runs/b"]
    assert listed(world, "title=best") == ["runs/a"]
    with pytest.raises(InvalidField) as caught:
        listed(world, "status=done AND archived=false")
    assert caught.value.metadata["seen"] == repr("status=done")
    update(world, change("archived"))
    assert listed(world, "archived=true") == []
