"""Pages over HTTP: headers, JSON beside each page, static files, streams, the life of the server."""

import http.client
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.web.hosted import HOSTILE, STEPS, Hosted, Visitor, hosted
from tutti.chassis.config.settings import SettingsError, load


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform")) as found:
        yield found


@pytest.fixture(scope="module")
def run(served: Hosted) -> str:
    return served.plant_run(f"a title with {HOSTILE}")


@pytest.fixture(scope="module")
def visitor(served: Hosted) -> Visitor:
    found = Visitor(served.url)
    assert found.log_in(served.link()).headers["location"] == "/runs"
    return found


def test_every_answer_carries_the_policy(visitor: Visitor) -> None:
    for path in ("/runs", "/runs.json", "/runs/none", "/nowhere", "/healthz", "/login/x", "/static/web/0/none.css"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_what_others_wrote_is_text(visitor: Visitor, run: str) -> None:
    for path in ("/runs", f"/{run}"):
        page = visitor.get(path)
        assert page.status == 200
        assert HOSTILE not in page.text
        assert "&lt;script&gt;alert(1)" in page.text
        assert not re.search(r"<script(?! type=\"module\" src=)|\sstyle=|\son[a-z]+=|<style", page.text)


def test_the_json_beside_a_page_says_the_same(visitor: Visitor, run: str) -> None:
    runs = visitor.get("/runs.json")
    assert runs.headers["content-type"] == "application/json"
    assert run in [each["name"] for each in runs.json["runs"]]
    view = visitor.get(f"/{run}.json").json
    training = view["trainings"][0]
    assert [stage["name"] for stage in view["stages"]] == ["ingest", "tokenization", "train"]
    assert [stage["summary"] for stage in view["stages"]] == ["1,204 documents"] * 3
    assert (view["seconds"], training["step"], training["steps"], view["missing"]) == (65.0, STEPS, STEPS, [])
    losses = training["curves"][0]["points"]
    assert [step for step, _ in losses] == list(range(1, STEPS + 1))
    page = visitor.get(f"/{run}").text
    assert f"{training['loss']:.3f}" in page
    assert page.count("<svg") - page.count('class="narrow-only"') == 4
    assert f"<code>tutti report {run}</code>" in page


def test_a_damaged_run_is_left_out_of_the_list_and_named(visitor: Visitor, served: Hosted, run: str) -> None:
    damaged = served.plant_run("soon damaged")
    with served.damaged("pipeline", damaged):
        found = visitor.get("/runs.json").json
        names = [each["name"] for each in found["runs"]]
        assert (run in names, damaged in names, len(found["damaged"])) == (True, False, 1)
        assert damaged in found["damaged"][0]
        assert damaged in visitor.get("/runs").text


def test_what_is_not_there_is_said_in_the_form_that_was_asked_for(visitor: Visitor) -> None:
    page, beside = visitor.get("/runs/none"), visitor.get("/runs/none.json")
    assert (page.status, beside.status) == (404, 404)
    assert "runs/none does not exist" in page.text
    assert beside.json["error"] == {"status": 404, "reason": "NOT_FOUND", "message": "runs/none does not exist"}


def test_a_page_is_shown_while_the_owner_of_a_stage_is_away(tmp_path: Path) -> None:
    with hosted(tmp_path, "services.scheduler=127.0.0.1:1", "rpc.attempts=1") as found:
        name, visitor = found.plant_run("alone"), Visitor(found.url)
        visitor.log_in(found.link())
        view = visitor.get(f"/{name}.json").json
        assert view["trainings"] == []
        assert "scheduler: no answer from" in view["missing"][0]
        assert "Not everything is shown" in visitor.get(f"/{name}").text


def test_static_files_are_named_by_their_content_and_kept(visitor: Visitor) -> None:
    path = re.findall(r'(/static/web/[0-9a-f]{16}/tutti.css)"', visitor.get("/runs").text)[0]
    found = visitor.get(path)
    assert (found.status, found.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in found.headers["cache-control"]
    assert visitor.get(re.sub("[0-9a-f]{16}", "0" * 16, path)).status == 404
    assert visitor.get("/static/web/../../pages.py").status == 404
    assert visitor.get("/runs").headers["cache-control"] == "no-store"


def events(visitor: Visitor, path: str) -> Iterator[str]:
    """The versions that a stream announces, until it ends."""
    connection = http.client.HTTPConnection(urlsplit(visitor.url).netloc, timeout=20)
    cookies = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    connection.request("GET", path, headers={"cookie": cookies, "user-agent": visitor.agent})
    response = connection.getresponse()
    assert response.status == 200
    for line in response:
        if line.startswith(b"data: "):
            yield line.decode().removeprefix("data: ").strip()
    connection.close()


def test_a_stream_announces_a_change_and_ends_when_the_server_drains(tmp_path: Path) -> None:
    with hosted(tmp_path) as found:
        visitor = Visitor(found.url)
        visitor.log_in(found.link())
        stream = events(visitor, "/runs.events")
        first = next(stream)
        found.plant_run("second")
        assert next(stream) != first
        assert found.host.drain() == []
        assert list(stream) == []
        assert not (tmp_path / "pages").exists()


def test_there_are_never_more_streams_than_allowed(tmp_path: Path) -> None:
    with hosted(tmp_path, "web.streams=1") as found:
        visitor = Visitor(found.url)
        visitor.log_in(found.link())
        stream = events(visitor, "/runs.events")
        next(stream)
        assert visitor.get("/runs.events").status == 503
        assert visitor.get("/runs").status == 200


def test_health_says_which_service_does_not_serve(served: Hosted) -> None:
    stranger = Visitor(served.url)
    assert (stranger.get("/healthz").status, stranger.get("/healthz").json) == (200, {})
    health = served.host._health
    health.set("pipeline", "is tested")
    assert (stranger.get("/healthz").status, stranger.get("/healthz").json) == (503, {"pipeline": "is tested"})
    health.set("pipeline")


def test_a_form_that_is_too_large_is_refused(served: Hosted) -> None:
    stranger = Visitor(served.url)
    assert stranger.post("/login", {"token": "x" * (1 << 21)}).status == 413


@pytest.mark.parametrize("following", ["//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example", ""])
def test_a_login_leads_to_this_server_alone(served: Hosted, following: str) -> None:
    answer = Visitor(served.url).post("/login", {"token": served.link(), "next": following})
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_pages_are_not_served_to_other_machines_without_tls() -> None:
    with pytest.raises(SettingsError, match=r"web.+public_url"):
        load(environment={}, overrides=["web.listen=0.0.0.0:0"], services=[])
    with pytest.raises(SettingsError, match="expected https://HOST"):
        load(environment={}, overrides=["web.public_url=http://a.example"], services=[])
    load(environment={}, overrides=["web.listen=0.0.0.0:0", "web.public_url=http://127.0.0.1:7601"], services=[])
    load(environment={}, overrides=["web.listen=0.0.0.0:0", "web.public_url=https://a.example"], services=[])


def test_behind_a_proxy_the_cookie_is_sent_over_tls_only(tmp_path: Path) -> None:
    with hosted(tmp_path, "web.public_url=https://a.example") as found:
        assert found.url == "https://a.example"
        front = found.host._front
        assert front is not None
        port = front._listening.ports[0]  # type: ignore[attr-defined]
        visitor = Visitor(f"http://127.0.0.1:{port}")
        answer = visitor.post("/login", {"token": found.link()}, host="a.example")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-tutti-")
        assert "; Secure" in cookie
        assert "strict-transport-security" in answer.headers
