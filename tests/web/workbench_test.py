"""The list of runs with their figures, runs side by side, and the commands beside them, over HTTP."""

from collections.abc import Iterator

import pytest

from tests.web.commands_test import tutti
from tests.web.hosted import STEPS, Hosted, Visitor, hosted
from tutti.chassis.identity.auth import Role
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
    assert listed[-1]["name"] == "runs/under-way"
    assert {each["bits_per_byte"] for each in listed} == {2.5, None}
