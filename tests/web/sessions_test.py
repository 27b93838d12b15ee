"""Sessions over HTTP: what is refused, what the audit trail says of it, and what is let through as a control."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from sqlalchemy import select, update

from tests.web.hosted import Hosted, Visitor, hosted
from tutti.chassis.config.settings import SettingsError, load
from tutti.chassis.store import audit
from tutti.contracts.access.v1 import CreateUserRequest, DisableUserRequest
from tutti.contracts.options.v1 import ROLE_ANNOTATOR, ROLE_ENGINEER

HOUR = 3_600_000_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform")) as found:
        found.plant_run("first")
        yield found


@pytest.fixture
def visitor(served: Hosted) -> Visitor:
    """Logged in as the operator."""
    found = Visitor(served.url)
    assert found.log_in(served.link()).status == 303
    assert found.get("/runs").status == 200
    return found


def refusals(served: Hosted, reason: str) -> int:
    """How often access recorded a refusal for this reason."""
    units = served.running("access").host.units
    records = units.run(lambda unit: list(audit.newest(unit, 1000)))
    return sum(each.times for each in records if (each.outcome, each.reason) == (audit.REFUSED, reason))


def later(served: Hosted, hours: float) -> None:
    """Move all sessions into the past, as if so much time had gone by since they were used."""
    running = served.running("access")
    table = running.host.metadata.tables["sessions"]
    columns = ("opened_at", "seen_at", "rotated_at", "confirmed_at")
    values = {name: table.c[name] - round(hours * HOUR) for name in columns}
    running.host.units.run(lambda unit: unit.tx.execute(update(table).values(values)))


def form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found.group(1)


def test_without_a_session_no_page_is_shown(served: Hosted) -> None:
    stranger = Visitor(served.url)
    for path in ("/", "/runs", "/runs.json", "/runs.events", "/runs/planted-1"):
        answer = stranger.get(path)
        assert answer.status == 401
        assert "first" not in answer.text
        assert "tutti open" in answer.text
    assert "tutti runs ls -o json" in stranger.get("/runs.json").json["error"]["message"]


def test_a_link_logs_in_once(served: Hosted) -> None:
    link, before = served.link(), refusals(served, "LINK_REFUSED")
    shown = Visitor(served.url).get(f"/login/{link}")  # a program that fetches links does not spend it
    assert (shown.status, "set-cookie" in shown.headers) == (200, False)
    assert Visitor(served.url).log_in(link).status == 303
    again = Visitor(served.url)
    assert again.log_in(link).status == 409
    assert again.get("/runs").status == 401
    assert refusals(served, "LINK_REFUSED") == before + 1


def test_who_is_logged_in_may_open_a_used_link_again(served: Hosted) -> None:
    link, mine = served.link(), Visitor(served.url)
    assert mine.log_in(link).status == 303
    again = mine.log_in(link)
    assert (again.status, again.headers["location"]) == (303, "/runs")
    assert mine.get("/runs").status == 200


def test_a_login_and_a_logout_are_recorded_under_the_user(served: Hosted, visitor: Visitor) -> None:
    visitor.post("/logout", {"form_token": form_token(visitor.get("/runs").text)})
    units = served.running("access").host.units
    newest = units.run(lambda unit: list(audit.newest(unit, 3)))
    assert [(each.action, each.user, each.method) for each in newest] == [
        ("log out", "users/operator", "session"),
        ("log in", "users/operator", "session"),
        ("issue a login link", "users/operator", "token"),
    ]


def test_an_expired_link_is_refused(served: Hosted) -> None:
    link, running = served.link(), served.running("access")
    table = running.host.metadata.tables["links"]
    running.host.units.run(lambda unit: unit.tx.execute(update(table).values(expires_at=table.c.expires_at - HOUR)))
    assert Visitor(served.url).log_in(link).status == 409


def test_a_session_that_was_not_used_for_too_long_is_refused(served: Hosted, visitor: Visitor) -> None:
    later(served, 11)
    assert visitor.get("/runs").status == 200
    before = refusals(served, "SESSION_EXPIRED")
    later(served, 13)
    assert visitor.get("/runs").status == 401
    assert refusals(served, "SESSION_EXPIRED") == before + 1


def test_a_session_that_was_logged_out_is_refused(served: Hosted, visitor: Visitor) -> None:
    copy, token = dict(visitor.cookies), form_token(visitor.get("/runs").text)
    before = refusals(served, "SESSION_CLOSED")
    answer = visitor.post("/logout", {"form_token": token})
    assert (answer.status, visitor.cookies) == (200, {})
    thief = Visitor(served.url, cookies=copy)
    assert thief.get("/runs").status == 401
    assert refusals(served, "SESSION_CLOSED") == before + 1


def test_a_cookie_that_another_browser_shows_ends_the_session_of_both(served: Hosted, visitor: Visitor) -> None:
    before = refusals(served, "SESSION_STOLEN")
    thief = Visitor(served.url, agent="another browser", cookies=dict(visitor.cookies))
    assert thief.get("/runs").status == 401
    assert visitor.get("/runs").status == 401
    assert refusals(served, "SESSION_STOLEN") == before + 2


def test_a_copy_of_a_cookie_that_was_replaced_ends_the_session_of_both(served: Hosted, visitor: Visitor) -> None:
    thief = Visitor(served.url, agent=visitor.agent, cookies=dict(visitor.cookies))
    later(served, 1)
    assert visitor.get("/runs").status == 200  # gets another cookie
    assert visitor.cookies != thief.cookies
    assert visitor.get("/runs").status == 200
    assert thief.get("/runs").status == 200  # within the minute that overlapping requests have
    later(served, 0.1)
    before = refusals(served, "SESSION_STOLEN")
    assert thief.get("/runs").status == 401
    assert visitor.get("/runs").status == 401
    assert refusals(served, "SESSION_STOLEN") == before + 2


def test_an_answer_that_was_lost_with_its_new_cookie_ends_no_session(served: Hosted, visitor: Visitor) -> None:
    kept = dict(visitor.cookies)
    for _ in range(2):
        later(served, 1)
        visitor.cookies = dict(kept)
        assert visitor.get("/runs").status == 200
    assert visitor.get("/runs").status == 200


def test_a_new_login_ends_the_session_that_the_browser_had(served: Hosted, visitor: Visitor) -> None:
    before = dict(visitor.cookies)
    assert visitor.log_in(served.link()).status == 303
    assert visitor.cookies != before
    assert visitor.get("/runs").status == 200
    assert Visitor(served.url, cookies=before).get("/runs").status == 401


def test_a_session_that_a_stranger_chose_is_not_taken(served: Hosted, visitor: Visitor) -> None:
    name = next(iter(visitor.cookies))
    victim = Visitor(served.url, cookies={name: "chosen-by-a-stranger"})
    assert victim.log_in(served.link()).status == 303
    assert victim.cookies[name] != "chosen-by-a-stranger"
    assert Visitor(served.url, cookies={name: "chosen-by-a-stranger"}).get("/runs").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
    ],
    ids=str,
)
def test_a_form_of_another_site_is_refused(served: Hosted, visitor: Visitor, headers: dict[str, str]) -> None:
    token, before = form_token(visitor.get("/runs").text), refusals(served, "FORGED_FORM")
    assert visitor.post("/logout", {"form_token": token}, **headers).status == 403
    assert refusals(served, "FORGED_FORM") == before + 1
    assert visitor.get("/runs").status == 200


def test_a_form_without_the_token_of_its_session_is_refused(served: Hosted, visitor: Visitor) -> None:
    other = Visitor(served.url)
    other.log_in(served.link())
    foreign = form_token(other.get("/runs").text)
    before = refusals(served, "FORGED_FORM")
    for fields in ({}, {"form_token": "0" * 64}, {"form_token": foreign}):
        assert visitor.post("/logout", fields).status == 403
    assert refusals(served, "FORGED_FORM") == before + 3
    assert visitor.get("/runs").status == 200
    assert visitor.post("/logout", {"form_token": form_token(visitor.get("/runs").text)}).status == 200


def test_guessed_links_are_refused_and_recorded_and_lock_nobody_out(tmp_path: Path) -> None:
    with hosted(tmp_path) as attacked:
        attacker = Visitor(attacked.url)
        found = Counter(attacker.log_in(f"guess-{at}").status for at in range(300))
        assert set(found) == {409, 429}
        assert found[429] > 200
        assert refusals(attacked, "LINK_REFUSED") == found[409]
        assert refusals(attacked, "TOO_MANY_FAILURES") == found[429]
        assert rows(attacked) < 50
        assert attacker.log_in("guess").headers["retry-after"].isdigit()
        assert attacker.log_in(attacked.link()).status == 303  # whoever has a link may use it


def rows(served: Hosted) -> int:
    running = served.running("access")
    return len(running.host.units.run(lambda unit: unit.tx.execute(select(unit.tables.audit.c.seq)).all()))


def test_a_page_is_for_its_roles(served: Hosted) -> None:
    with served.client() as client:
        made = {
            role: client.access.CreateUser(CreateUserRequest(display_name="A person", roles=[role])).user.name
            for role in (ROLE_ENGINEER, ROLE_ANNOTATOR)
        }
    engineer, annotator = Visitor(served.url), Visitor(served.url)
    engineer.log_in(served.link(made[ROLE_ENGINEER]))
    annotator.log_in(served.link(made[ROLE_ANNOTATOR]))
    assert engineer.get("/runs").status == 200
    before = refusals(served, "PERMISSION_DENIED")
    assert annotator.get("/runs").status == 403
    assert refusals(served, "PERMISSION_DENIED") == before + 1


def test_a_user_who_was_disabled_is_refused_at_the_next_request(served: Hosted) -> None:
    with served.client() as client:
        user = client.access.CreateUser(CreateUserRequest(display_name="A person", roles=[ROLE_ENGINEER])).user.name
        visitor, unused = Visitor(served.url), served.link(user)
        visitor.log_in(served.link(user))
        assert visitor.get("/runs").status == 200
        client.access.DisableUser(DisableUserRequest(name=user))
    assert visitor.get("/runs").status == 401
    assert Visitor(served.url).log_in(unused).status == 409
    assert refusals(served, "USER_DISABLED") > 0


def test_a_late_request_of_an_ended_session_does_not_remove_the_one_that_replaced_it(served: Hosted) -> None:
    """Two tabs: one logs in anew while a script of the other still asks with the session that ended."""
    visitor, late = Visitor(served.url), Visitor(served.url)
    visitor.log_in(served.link())
    late.cookies = dict(visitor.cookies)
    visitor.log_in(served.link())
    answer = late.send("GET", "/runs.json", "", {"sec-fetch-mode": "cors"})
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    shown = late.send("GET", "/runs", "", {"sec-fetch-mode": "navigate"})
    assert (shown.status, "set-cookie" in shown.headers) == (401, True)
    assert visitor.get("/runs").status == 200


def test_a_request_for_another_host_is_refused(served: Hosted, visitor: Visitor) -> None:
    assert visitor.get("/runs", host="rebound.example").status == 421
    assert visitor.get("/runs", host="localhost").status == 200


def test_a_login_page_names_the_user_and_the_one_who_is_logged_in_and_nothing_goes_on_without_a_click(
    served: Hosted, visitor: Visitor
) -> None:
    with served.client() as client:
        bob = client.access.CreateUser(CreateUserRequest(display_name="Bob B.", roles=[ROLE_ENGINEER])).user.name
    link = served.link(bob)
    shown = f"Bob B. ({bob.removeprefix('users/')})"
    assert f"Log in as {shown}" in Visitor(served.url).get(f"/login/{link}").text
    lured = visitor.get(f"/login/{link}?next=/runs")  # a page elsewhere led the operator's browser here
    assert f"Log in as {shown}" in lured.text
    assert "<strong>Operator (operator)</strong>" in lured.text
    script = re.search(r'src="(/static/web/[0-9a-f]+/login\.js)"', lured.text)
    assert script is not None
    assert "requestSubmit" not in visitor.get(script.group(1)).text
    assert visitor.get("/runs").status == 200
    assert visitor.log_in(link).status == 303  # the control: after the click the browser is bob's
    assert "Bob B." in visitor.get("/runs").text


def test_the_page_of_a_spent_link_has_nothing_to_click_and_does_not_name_its_user(served: Hosted) -> None:
    link, mine = served.link(), Visitor(served.url)
    mine.log_in(link)
    assert 'action="/login"' not in Visitor(served.url).get(f"/login/{link}").text
    assert "Operator" not in Visitor(served.url).get(f"/login/{link}").text
    assert "Continue as Operator (operator)" in mine.get(f"/login/{link}?next=/runs").text


@pytest.mark.parametrize("following", ["/中", "/runs?title=ä b", "/runs/%E4%B8%AD"])
def test_a_link_to_a_path_of_any_letters_logs_in(served: Hosted, following: str) -> None:
    found = Visitor(served.url)
    answer = found.post("/login", {"token": served.link(), "next": following})
    assert (answer.status, unquote(answer.headers["location"])) == (303, unquote(following))
    assert found.get("/runs").status == 200


def test_the_cookie_of_a_name_of_its_own_is_not_sent_to_other_ports_of_127_0_0_1(tmp_path: Path) -> None:
    with hosted(tmp_path, "web.host=a.localhost") as found:
        port = urlsplit(found.url).port
        assert found.url == f"http://a.localhost:{port}"
        mine = Visitor(f"http://127.0.0.1:{port}")
        answer = mine.post("/login", {"token": found.link(), "next": "/runs"}, host=f"a.localhost:{port}")
        assert answer.status == 303
        assert "domain" not in answer.headers["set-cookie"].lower()  # of this name alone
        assert mine.get("/runs").status == 200  # a tab of the former origin goes on
        assert mine.get("/runs", host=f"b.localhost:{port}").status == 421


@pytest.mark.parametrize("name", ["localhost", "a.example", "a.localhost.example", "A.localhost", ".localhost"])
def test_only_names_of_this_machine_are_names_of_its_pages(name: str) -> None:
    with pytest.raises(SettingsError, match=r"web.+a\.localhost"):
        load(environment={}, overrides=[f"web.host={name}"], services=[])
