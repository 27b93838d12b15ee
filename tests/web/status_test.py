"""The page `/status` over HTTP: who sees it, the JSON beside it, and a service that is away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.hosted import BUILDS, WAITS, Answer, Hosted, Visitor, hosted
from tests.web.pages_test import events
from tutti.chassis.demo_test import eventually
from tutti.contracts.access.v1 import CreateUserRequest
from tutti.contracts.options.v1 import ROLE_ANNOTATOR, ROLE_ENGINEER
from tutti.contracts.scheduler.v1 import JOB_STATE_QUEUED, Job, JobSpec

LOST = "nodes/b is lost (silent for 15 s): start its agent again"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    still = ("lease.ttl_seconds=3600", "lifecycle.reconcile_seconds=3600")  # planted nodes have no agent to be heard
    with hosted(tmp_path_factory.mktemp("platform"), *still) as found:
        found.plant_work()
        found.plant_run("done before")
        yield found


@pytest.fixture(scope="module")
def visitor(served: Hosted) -> Visitor:
    found = Visitor(served.url)
    found.log_in(served.link())
    return found


def examined(visitor: Visitor) -> Answer:
    """The JSON, once the services have looked at what they depend on."""
    eventually(lambda: len(visitor.get("/status.json").json["dependencies"]) > 2, seconds=20)
    return visitor.get("/status.json")


@pytest.mark.parametrize(("role", "status"), [(ROLE_ENGINEER, 200), (ROLE_ANNOTATOR, 403)])
def test_engineers_see_it_and_annotators_do_not(served: Hosted, role: int, status: int) -> None:
    with served.client() as operator:
        user = operator.access.CreateUser(CreateUserRequest(display_name="A person", roles=[role])).user  # type: ignore[list-item]
    found = Visitor(served.url)
    found.log_in(served.link(user.name))
    assert (found.get("/status").status, found.get("/status.json").status) == (status, status)
    assert Visitor(served.url).get("/status.json").status == 401


def test_the_page_and_its_json_say_what_runs_where_and_what_waits_for_what(visitor: Visitor) -> None:
    view, page = examined(visitor).json, visitor.get("/status").text
    ready, lost = {each["name"]: each for each in view["nodes"]}["nodes/a"], view["nodes"][0]
    assert (ready["used"], ready["slots"], view["used"], view["slots"]) == (4, 6, 4, 6)
    assert ready["assignments"] == [{"job": "jobs/trains", "ranks": "0-2, 5", "epoch": 3, "stops": False}]
    assert (lost["name"], lost["state"], lost["advice"]) == ("nodes/b", "lost", LOST)
    assert [(each["name"], each["waits"], each["reason"]) for each in view["jobs"]] == [
        ("jobs/waits", True, WAITS),
        ("jobs/trains", False, ""),
    ]
    assert [(each["name"], each["stages"]) for each in view["runs"]] == [("runs/under-way", ["train (jobs/trains)"])]
    assert LOST in view["problems"]
    for words in (LOST, WAITS, "4 of 6", "ranks 0-2, 5, epoch 3", "train (jobs/trains)", "7 of 40", "8 cores"):
        assert words in page
    for problem in view["problems"]:
        assert problem in page.replace("&#39;", "'")
    assert '<a href="/status" aria-current="page">Status</a>' in page
    assert "done before" not in page


def test_each_service_is_shown_with_its_process_and_its_dependencies(served: Hosted, visitor: Visitor) -> None:
    view = examined(visitor).json
    services = {each["name"]: each for each in view["services"]}
    assert set(BUILDS) < set(services)
    for name in BUILDS:
        (copy,) = services[name]["copies"]
        assert (copy["healthy"], copy["advice"], copy["address"]) == (True, [], served.host.address)
        assert copy["since"].startswith("20")
        assert copy["process"]
    (missing,) = services["dedup"]["copies"]
    assert missing["advice"][0].startswith(
        f"it is not served at {served.host.address}: start it there, or set services"
    )
    assert {each["name"]: each["ok"] for each in view["dependencies"]} == dict.fromkeys(
        ("database", "event log", "blobs"), True
    )
    assert sorted(view["dependencies"][0]["services"]) == sorted(BUILDS)


def test_a_service_that_is_unhealthy_says_why_and_since_when(served: Hosted, visitor: Visitor) -> None:
    def copy() -> dict[str, object]:
        services = {each["name"]: each for each in visitor.get("/status.json").json["services"]}
        (found,) = services["committer"]["copies"]
        return dict(found)

    before, health = copy()["since"], served.host._health
    probed = served.host._probe
    probed.tell_to_stop()  # it would find at once that the service is well
    assert probed.join(20)
    health.set("committer", "is tested")
    eventually(lambda: not copy()["healthy"], seconds=20)
    assert "is tested" in copy()["advice"]  # type: ignore[operator]
    assert str(copy()["since"]) > str(before)
    assert "committer does not serve: is tested" in visitor.get("/status.json").json["problems"]
    health.set("committer")
    eventually(lambda: copy()["healthy"], seconds=20)


def test_the_page_announces_a_change(served: Hosted, visitor: Visitor) -> None:
    stream = events(visitor, "/status.events")
    first = next(stream)
    served.plant("scheduler", Job(name="jobs/new", spec=JobSpec(steps=9), state=JOB_STATE_QUEUED, reason="starts"))
    assert next(stream) != first
    eventually(lambda: "jobs/new" in visitor.get("/status").text)  # an earlier change may have been announced


def test_a_service_that_is_away_is_named_and_the_page_is_shown(tmp_path: Path) -> None:
    with hosted(tmp_path, "services.scheduler=127.0.0.1:1") as found:
        visitor = Visitor(found.url)
        visitor.log_in(found.link())
        view = visitor.get("/status.json").json
        services = {each["name"]: each for each in view["services"]}
        (copy,) = services["scheduler"]["copies"]
        assert (copy["healthy"], copy["address"]) == (False, "127.0.0.1:1")
        assert "no answer" in copy["advice"][0]
        assert copy["since"].startswith("20")
        assert any(each.startswith("nodes are unknown: scheduler: ") for each in view["missing"])
        assert services["pipeline"]["healthy"]
        page = visitor.get("/status")
        assert page.status == 200
        assert "nodes are unknown: scheduler: " in page.text
        assert "Traceback" not in page.text
