"""The commands of pages, users and the audit trail."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from click.testing import CliRunner

from tests.e2e.command import TUTTI, environment
from tests.web.hosted import Hosted, Visitor, hosted
from tutti.chassis.demo_test import eventually
from tutti.chassis.errors import PermissionDenied, Unauthenticated
from tutti.chassis.rpc.usertokens import PREFIX
from tutti.cli.app import build
from tutti.cli.failures import Failure
from tutti.client import connect
from tutti.contracts.access.v1 import IssueLinkRequest
from tutti.contracts.admin.v1 import DescribeRequest
from tutti.contracts.common.v1 import ListRequest
from tutti.web.tokens import digest

BROWSER = """
import json, os, stat, sys
from urllib.parse import unquote, urlsplit
target, address = sys.argv[1:]
path = unquote(urlsplit(address).path)
found = os.stat(path)
heard = {
    "arguments": sys.argv, "path": path, "mode": stat.S_IMODE(found.st_mode), "owner": found.st_uid,
    "text": open(path).read(),
}
with open(target + ".new", "w") as file:
    json.dump(heard, file)
os.rename(target + ".new", target)
"""
"""A browser that records its arguments and the file that it is sent to."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform")) as found:
        yield found


def tutti(served: Hosted, *arguments: str) -> Any:
    """What the command prints with `-o json`."""
    command = [*arguments, "-o", "json", "--data-dir", str(served.data_dir.path)]
    done = CliRunner().invoke(build(), command, standalone_mode=False, catch_exceptions=False)
    return json.loads(done.stdout)


def followed(served: Hosted, url: str) -> Visitor:
    """A browser that opened a link and logged in with it."""
    base, _, rest = url.partition("/login/")
    token, _, query = rest.partition("?next=")
    assert base == served.url
    visitor = Visitor(served.url)
    assert visitor.get(f"/login/{token}").status == 200
    answer = visitor.post("/login", {"token": token, "next": query})
    assert (answer.status, answer.headers["location"]) == (303, query)
    return visitor


def test_open_prints_a_link_to_the_page_of_a_run(served: Hosted) -> None:
    run = served.plant_run("opened")
    url = tutti(served, "open", run)["url"]
    assert url.endswith(f"?next=/{run}")
    assert "opened" in followed(served, url).get(f"/{run}").text
    assert tutti(served, "open", "--no-browser")["url"].endswith("?next=/runs")


def test_the_chat_is_opened_instead_of_a_run_where_its_service_has_pages(served: Hosted) -> None:
    with pytest.raises(click.UsageError, match="leave one of them out"):
        tutti(served, "open", "first", "--chat")
    with pytest.raises(Failure, match="chat serves no pages"):
        tutti(served, "open", "--chat")


def test_a_browser_is_sent_to_a_link_that_is_in_no_argument(served: Hosted, tmp_path: Path) -> None:
    program, heard = tmp_path / "browser.py", tmp_path / "heard.json"
    program.write_text(BROWSER)
    command = [TUTTI, "open", "--browser", "--data-dir", str(served.data_dir.path)]
    browser = f"{sys.executable} {program} {heard} %s &"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment({"HOME": str(tmp_path), "BROWSER": browser})
    ) as opening:
        eventually(heard.exists)
        found = json.loads(heard.read_text())
        arguments = [*found["arguments"], *Path(f"/proc/{opening.pid}/cmdline").read_text().split("\0")]
        url = re.findall(r'<a href="([^"]+)"', found["text"])[0]
        token = url.partition("/login/")[2].partition("?")[0]
        assert [argument for argument in arguments if token in argument] == []
        assert (found["mode"], found["owner"]) == (0o600, os.geteuid())
        assert followed(served, url).get("/runs").status == 200
        assert opening.communicate(timeout=60)[0].strip() == url
    assert not Path(found["path"]).exists()
    with served.client() as client:
        assert client.access.IssueLink(IssueLinkRequest(link_digest=digest(token))).used


def test_pages_keep_their_address_and_open_names_one_that_another_program_has_taken(tmp_path: Path) -> None:
    with hosted(tmp_path) as found:
        first, visitor = found.url, Visitor(found.url)
        visitor.log_in(found.link())
    with hosted(tmp_path) as found:
        assert found.url == first
        assert visitor.get("/runs").status == 200
    address = urlsplit(first)
    with socket.create_server((address.hostname, address.port)), hosted(tmp_path) as found:
        moved = found.url
        assert moved != first
        command = ["open", "--no-browser", "--data-dir", str(tmp_path)]
        opened = CliRunner().invoke(build(), command, standalone_mode=False, catch_exceptions=False)
        assert opened.stdout.startswith(f"{moved}/login/")
        assert first in opened.stderr
        visitor.url = moved
        assert visitor.get("/runs").status == 200
    with hosted(tmp_path) as found:
        assert found.url == moved
        visitor.url = first
        assert visitor.get("/runs").status == 200
        with found.client() as client:
            assert [each.former_pages for each in client.admin.Describe(DescribeRequest()).services if each.pages] == [
                []
            ]


def test_a_user_is_added_listed_invited_again_and_disabled(served: Hosted) -> None:
    made = tutti(served, "users", "add", "Ada Example", "--role", "engineer")
    visitor = followed(served, made["url"])
    assert "Ada Example" in visitor.get("/runs").text
    eve = tutti(served, "users", "add", "Eve Example", "--role", "engineer", "--tenant", "lab")["user"]
    listed = {each["name"]: each for each in tutti(served, "users", "ls")}
    assert [listed[user]["tenant"] for user in (made["user"], eve)] == ["tenants/default", "tenants/lab"]
    assert (listed[made["user"]]["display_name"], listed[made["user"]]["state"]) == ("Ada Example", "active")
    again = followed(served, tutti(served, "users", "invite", made["user"])["url"])
    assert tutti(served, "users", "disable", made["user"].removeprefix("users/"))["state"] == "disabled"
    assert [each.get("/runs").status for each in (visitor, again)] == [401, 401]


def test_the_name_of_a_user_is_erased_and_the_audit_trail_still_verifies(served: Hosted) -> None:
    user = tutti(served, "users", "add", "Bob Example", "--role", "engineer")["user"]
    assert tutti(served, "users", "erase", user, "--dry-run")["display_name"] == "Bob Example"
    assert tutti(served, "users", "erase", user)["links"] == 1
    listed = {each["name"]: each for each in tutti(served, "users", "ls")}
    assert (listed[user]["display_name"], listed[user]["state"]) == ("", "disabled")
    (verified,) = tutti(served, "audit", "verify", "--service", "access")
    assert verified["problems"] == []


def test_a_user_calls_with_a_token_until_disabled(served: Hosted) -> None:
    user = tutti(served, "users", "add", "Eve Example", "--role", "engineer")["user"]
    token = tutti(served, "token", "create", "--user", user)["token"]
    with connect(served.data_dir.path, token=token) as client:
        served.plant_run("seen by a user")
        assert client.pipeline.ListRuns(ListRequest()).runs
        with pytest.raises(PermissionDenied, match="not by engineer"):
            client.access.ListUsers(ListRequest())
        client.access.IssueLink(IssueLinkRequest(link_digest="a" * 64))
        records = tutti(served, "audit", "--service", "access", "--limit", "2")
        assert [(each["user"], each["outcome"]) for each in records] == [(user, "changed"), (user, "refused")]
        with pytest.raises(PermissionDenied, match="may be done for users/operator by operator"):
            client.access.IssueLink(IssueLinkRequest(link_digest="b" * 64, user="users/operator"))
        tutti(served, "users", "disable", user)

        def refused() -> bool:
            try:
                client.pipeline.ListRuns(ListRequest())
            except Unauthenticated:
                return True
            return False

        eventually(refused)  # an answer of access is used for some seconds
    with connect(served.data_dir.path, token=f"{PREFIX}guessed") as stranger, pytest.raises(Unauthenticated):
        stranger.pipeline.ListRuns(ListRequest())


def test_the_audit_trail_shows_changes_and_refusals(served: Hosted) -> None:
    user = tutti(served, "users", "add", "Bob Example", "--role", "annotator")["user"]
    Visitor(served.url).log_in("guessed")
    records = tutti(served, "audit", "--service", "access", "--limit", "5")
    assert [each["outcome"] for each in records[:3]] == ["refused", "changed", "changed"]
    assert records[0]["reason"] in ("LINK_REFUSED", "TOO_MANY_FAILURES")
    assert {each["resource"] for each in records[1:3]} == {user}
    assert {each["user"] for each in records[1:3]} == {"users/operator"}
    assert len(tutti(served, "audit")) >= len(records)
