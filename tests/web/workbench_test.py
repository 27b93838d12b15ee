"""The list of runs with their figures, runs side by side, and the commands beside them, over HTTP."""

from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.web.commands_test import tutti
from tests.web.hosted import STEPS, Hosted, Visitor, hosted
from tests.web.sessions_test import form_token
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import Role
from tutti.cli.app import build
from tutti.pipeline.runs.labels import MOST_TAGS
from tutti.web.pages import Entry, Site, menu_of


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform")) as found:
        for title in ("words", "words", "other"):
            found.plant_run(title)
        found.plant_work()
        yield found


@pytest.fixture(scope="module")
def visitor(served: Hosted) -> Visitor:
    found = Visitor(served.url)
    found.log_in(served.link())
    return found


def test_a_list_has_the_figures_of_runs_and_of_those_that_train(visitor: Visitor) -> None:
    found = visitor.get("/runs.json?sort=bits_per_byte").json
    rows = {each["name"]: each for each in found["runs"]}
    assert (rows["runs/planted-1"]["bits_per_byte"], rows["runs/planted-1"]["step"]) == (2.5, STEPS)
    assert (rows["runs/under-way"]["step"], rows["runs/under-way"]["steps"]) == (7, STEPS)
    assert found["runs"][-1]["name"] == "runs/under-way"  # it was not validated yet
    assert (found["total"], found["found"], found["missing"]) == (4, 4, [])
    searched = visitor.get("/runs.json?q=WORDS&state=done").json
    assert [each["name"] for each in searched["runs"]] == ["runs/planted-2", "runs/planted-1"]
    assert searched["runs"][0]["before"] == "runs/planted-1"
    selected = visitor.get("/runs.json?q=words&run=planted-1&run=runs/planted-3").json
    assert [(each["name"], each["selected"]) for each in selected["runs"]][-1] == ("runs/planted-1", True)
    assert selected["elsewhere"] == ["planted-3"]
    assert visitor.get("/runs?q=nothing").status == 200


def test_the_first_entry_of_the_menu_is_that_of_runs_whatever_services_there_are(visitor: Visitor) -> None:
    everybody = frozenset({Role.ENGINEER})
    chat = Site("chat", "tutti.chat", [], menu=[Entry("Chat", "/chat", everybody)])
    runs = Site("pipeline", "tutti.pipeline", [], menu=[Entry("Runs", "/runs", everybody, first=True)])
    assert [each.title for each in menu_of([chat, runs])] == ["Runs", "Chat"]
    assert visitor.get("/").headers["location"] == "/runs"


def test_a_list_that_cannot_be_is_refused_with_what_it_expects(visitor: Visitor) -> None:
    for path in ("/runs?sort=size", "/compare?run=planted-1", "/compare", "/compare?" + "&".join(["run=x"] * 2)):
        assert visitor.get(path).status == 400, path
    assert visitor.get("/compare?run=planted-1&run=none").status == 404


def test_runs_are_compared_with_their_curves_and_the_keys_that_differ(visitor: Visitor) -> None:
    path = "/compare{}?run=planted-1&run=runs/planted-3&run=under-way"
    found = visitor.get(path.format(".json")).json
    assert [each["title"] for each in found["runs"]] == ["words", "other", "under way"]
    loss = found["charts"][0]
    assert [each["letter"] for each in loss["lines"]] == ["a", "b"]
    assert [step for step, _ in loss["lines"][1]["points"]] == list(range(1, STEPS + 1))
    figures = {each["what"]: each["values"] for each in found["figures"]}
    assert figures["documents kept"] == ["1,204", "1,204", "-"]
    assert figures["steps"] == [f"{STEPS}", f"{STEPS}", "7"]
    page = visitor.get(path.format("")).text
    assert page.count("over-letter") >= 2 * len(found["charts"])
    assert "<style" not in page


def test_the_list_and_the_commands_agree(served: Hosted, visitor: Visitor) -> None:
    rows = tutti(served, "runs", "compare", "words", "other", "under way")
    told = {each["what"]: [each[letter] for letter in "abc"] for each in rows}
    assert told["run"] == ["runs/planted-2", "runs/planted-3", "runs/under-way"]
    beside = visitor.get("/compare.json?run=planted-2&run=planted-3&run=under-way").json
    assert {each["what"]: each["values"] for each in beside["figures"]}.items() <= told.items()
    listed = tutti(served, "runs", "ls", "--sort", "-bits_per_byte")
    assert (listed[-1]["name"], listed[-1]["step"]) == ("runs/under-way", 7)
    assert {each["bits_per_byte"] for each in listed} == {2.5, None}


def label(visitor: Visitor, **fields: str) -> int:
    token = form_token(visitor.get("/labels?run=planted-1").text)
    return visitor.post("/labels", {"form_token": token, **fields}).status


def row_of(visitor: Visitor, name: str, query: str = "") -> dict[str, Any]:
    return next((each for each in visitor.get(f"/runs.json{query}").json["runs"] if each["name"] == name), {})


def test_a_run_is_given_a_title_a_note_and_tags_that_are_text_wherever_they_are_shown(visitor: Visitor) -> None:
    note = "</textarea><script>alert(1)</script>\r\nsecond line"
    fields = {"title": "<b>best</b>", "note": note, "tags": "lr_1 fast fast", "revision": "0"}
    assert label(visitor, runs="runs/planted-3", action="save", **fields) == 303
    found = row_of(visitor, "runs/planted-3", "?tag=fast")
    assert (found["title"], found["tags"]) == ("<b>best</b>", ["fast", "lr_1"])
    assert found["note"] == "</textarea><script>alert(1)</script>…"
    told = visitor.get("/runs/planted-3.json").json["labels"]
    assert told == {"tags": ["fast", "lr_1"], "note": note.replace("\r", ""), "archived_at": ""}
    for path in ("/runs", "/runs/planted-3", "/labels?run=planted-3", "/compare?run=planted-3&run=planted-1"):
        page = visitor.get(path).text
        assert "<script>alert" not in page, path
        assert "<b>best" not in page, path
    assert "&lt;script&gt;" in visitor.get("/labels?run=planted-3").text
    assert label(visitor, runs="runs/planted-3", action="save", **fields) == 303  # the same again
    assert label(visitor, runs="runs/planted-3", action="save", **fields | {"title": "mine"}) == 409
    assert label(visitor, runs="runs/planted-3", action="save", **fields | {"title": "", "revision": "1"}) == 303
    assert row_of(visitor, "runs/planted-3")["title"] == "other"


def test_selected_runs_are_tagged_and_archived_together_or_not_at_all(visitor: Visitor) -> None:
    both = "runs/planted-2 runs/planted-1"
    assert label(visitor, runs=both, action="tag", add="old kept", remove="none") == 303
    assert label(visitor, runs=both, action="tag", remove="kept") == 303
    assert [each["name"] for each in visitor.get("/runs.json?tag=old").json["runs"]] == both.split()
    assert label(visitor, runs=f"{both} runs/none", action="archive") == 404
    assert visitor.get("/runs.json").json["hidden"] == 0
    assert label(visitor, runs=both, action="archive") == 303
    listed = visitor.get("/runs.json?tag=old").json
    assert (listed["found"], listed["hidden"]) == (0, 2)
    assert row_of(visitor, "runs/planted-1", "?archived=only")["archived"]
    assert len(visitor.get(f"{listed['unhide'].replace('/runs', '/runs.json')}").json["runs"]) == 2
    assert "archived" in visitor.get("/runs/planted-1").text
    assert label(visitor, runs=both, action="unarchive") == 303
    assert label(visitor, runs=both, action="tag", remove="old") == 303
    assert visitor.get("/runs.json").json["hidden"] == 0


def test_a_form_of_labels_that_no_page_sends_is_refused(visitor: Visitor) -> None:
    assert visitor.post("/labels", {"runs": "runs/planted-1", "action": "archive"}).status == 403
    for fields in ({"action": "delete"}, {"action": "save"}, {"action": "save", "revision": "0", "tags": "A"}):
        assert label(visitor, runs="runs/planted-1", **fields) == 400
    assert visitor.get("/labels").status == 400
    assert visitor.get("/labels?run=none").status == 404
    assert visitor.get("/runs?archived=no").status == 400
    assert visitor.get("/runs?tag=A").status == 400


def said(served: Hosted, *arguments: str, text: str = "") -> Result:
    """A command for people."""
    command = [*arguments, "--data-dir", str(served.data_dir.path)]
    return CliRunner().invoke(build(), command, standalone_mode=False, input=text)


def test_a_run_is_not_compared_with_itself(served: Hosted) -> None:
    for names in (["under way"], ["planted-1", "runs/planted-1"]):
        refused = said(served, "runs", "compare", *names)
        assert refused.exit_code != 0
        assert "name different runs" in str(refused.exception)


def test_commands_rename_a_run_and_write_its_note(served: Hosted) -> None:
    assert tutti(served, "runs", "rename", "planted-3", "best of all")["title"] == "best of all"
    assert tutti(served, "runs", "show", "best of all")["name"] == "runs/planted-3"
    assert tutti(served, "runs", "compare", "best of all", "planted-1")[1]["a"] == "best of all"
    assert said(served, "runs", "note", "planted-3", "-", text="one\n\u202etwo\n").exit_code == 0
    assert said(served, "runs", "note", "planted-3").stdout == "one\n\\u202etwo\n"
    assert "one" in said(served, "runs", "show", "planted-3").stdout
    assert isinstance(said(served, "runs", "note", "planted-3", "\x1b[31m").exception, InvalidField)
    assert tutti(served, "runs", "note", "planted-3", "--clear")["note"] == ""
    assert tutti(served, "runs", "rename", "planted-3", "--clear")["title"] == "other"
    for verb, *more in (["rename"], ["rename", "a", "--clear"], ["note", "a", "--clear"]):
        assert isinstance(said(served, "runs", verb, "planted-3", *more).exception, click.UsageError)


def test_commands_tag_and_archive_several_runs_or_none(served: Hosted) -> None:
    def listed(*options: str) -> list[str]:
        return [each["name"].removeprefix("runs/") for each in tutti(served, "runs", "ls", *options)]

    tagged = tutti(served, "runs", "tag", "planted-1", "planted-2", "--add", "command", "--dry-run")
    assert [each["tags"] for each in tagged] == [["command"]] * 2
    assert listed("--tag", "command") == []
    tutti(served, "runs", "tag", "planted-1", "planted-2", "--add", "command", "--add", "first")
    tutti(served, "runs", "tag", "--filter", "tags:command AND title=words", "--remove", "first")
    assert listed("--tag", "command") == ["planted-1", "planted-2"]
    assert listed("--tag", "command", "--tag", "first") == []
    tutti(served, "runs", "tag", "planted-2", "--add", "full")
    many = [word for at in range(MOST_TAGS - 1) for word in ("--add", f"{at}")]
    full = said(served, "runs", "tag", "planted-1", "planted-2", *many)
    assert isinstance(full.exception, InvalidField)
    assert tutti(served, "runs", "show", "planted-1")["tags"] == ["command"]
    tutti(served, "runs", "archive", "--filter", "tags:command")
    assert listed("--tag", "command") == []
    assert listed("--tag", "command", "--archived") == listed("--filter", "archived=true") == ["planted-1", "planted-2"]
    hidden = said(served, "runs", "ls")
    assert "planted-1" not in hidden.stdout
    assert "2 archived runs" in hidden.stderr
    assert "command" in said(served, "runs", "ls", "--archived").stdout
    assert tutti(served, "runs", "show", "planted-1")["archived"]
    tutti(served, "runs", "unarchive", "planted-1", "planted-2")
    assert "archived" not in said(served, "runs", "ls").stderr
