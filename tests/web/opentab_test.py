"""The open tab of an annotator outlives an upgrade: its page is answered, and no judgement is lost or doubled.

The page, its session and its database are those of an earlier release (`tests/web/opentab.py`).
"""

import contextlib
import json
import sqlite3
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.web.annotation_test import CAMPAIGN, JUDGEMENTS, Annotator
from tests.web.hosted import Answer, Hosted, Visitor, hosted
from tests.web.opentab import FOLDER
from tutti.annotation.conftest import judgement_id
from tutti.annotation.service import build
from tutti.chassis.demo_test import eventually
from tutti.contracts.common.v1 import GetRequest
from tutti.web.ports import listen

OWN = f"/annotation/{CAMPAIGN}/own.json"
VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))
SECONDS = {"sessions": ("opened_at", "seen_at", "rotated_at", "confirmed_at"), "assignments": ("expires_at",)}
"""Times in the databases that say whether the tab was used just now, by table."""


@dataclass
class Tab:
    """`kept` has what the release answered, and what was not sent; the calls go to the platform of today.

    `url` is where the release had its pages.
    """

    annotator: Annotator
    kept: dict[str, Any]
    served: Hosted
    url: str

    def call(self, name: str, body: dict[str, object]) -> Answer:
        return self.annotator.send(f"/annotation/api/{name}", {"campaign": CAMPAIGN, **body})


def moved(path: Path, seconds: float) -> None:
    """Let the times of a database be so much later."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
        for table in tables & SECONDS.keys():
            for column in SECONDS[table]:
                later = f"update {table} set {column} = {column} + ?"  # noqa: S608
                database.execute(later, (round(seconds * 1e6),))


@pytest.fixture(scope="module", params=VERSIONS)
def tab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A platform of today on the data of a release that was killed, and the tab that is still open."""
    kept = json.loads((FOLDER / f"{request.param}.json").read_text())
    path = tmp_path_factory.mktemp("platform") / "data"
    with tarfile.open(FOLDER / f"{request.param}.tar.xz") as archive:
        archive.extractall(path, filter="data")
    for database in (path / "db").glob("*.db"):
        moved(database, time.time() - kept["recorded"])
    free = listen("127.0.0.1:0", [])
    free.close()
    url = f"http://127.0.0.1:{free.ports[0]}"
    (path / "pages").write_text(f"{url}\n")
    with hosted(path, builds={"annotation": build}) as served:
        visitor = Visitor(url, kept["agent"], dict(kept["cookies"]))
        yield Tab(Annotator(visitor, kept["form_token"]), kept, served, url)


def lacking(now: Any, before: Any) -> list[str]:
    """The fields of an answer of the release that today's answer does not have, or has with another type."""
    if type(now) is not type(before):
        return [f"{before!r} became {now!r}"]
    if isinstance(before, dict):
        missing = [name for name in before if name not in now]
        return missing + [each for name in before if name in now for each in lacking(now[name], before[name])]
    if isinstance(before, list) and before and now:
        return lacking(now[0], before[0])
    return []


def test_what_the_tab_had_not_sent_is_stored_once_with_its_session_and_form_token(tab: Tab) -> None:
    sent, unsent = tab.kept["sent"], tab.kept["unsent"]
    for _ in range(2):  # the tab sends again what was not confirmed
        receipt = tab.call("judgements", {"judgements": unsent}).json
        assert (receipt["accepted"], receipt["refused"]) == ([each["id"] for each in unsent], [])
    judged = len({each["pair"] for each in [*sent, *unsent]})
    assert receipt["done"] == judged
    with tab.served.client() as client:
        campaign = GetRequest(name=f"campaigns/{CAMPAIGN}")
        eventually(lambda: client.annotation.GetCampaign(campaign).judgements == judged)
    own = json.dumps(tab.annotator.visitor.get(OWN).json)
    assert all(own.count(each["id"]) for each in unsent)


def test_every_answer_has_what_the_page_of_the_release_reads(tab: Tab) -> None:
    answers = {
        "state": tab.annotator.state().json,
        "leases": tab.call("leases", {"count": 1}).json,
        "judgements": tab.call("judgements", {"judgements": tab.kept["unsent"]}).json,
        "messages": tab.call("messages", {"id": judgement_id("another"), "words": "May I?"}).json,
    }
    assert {name: lacking(found, tab.kept["answers"][name]) for name, found in answers.items()} == {
        name: [] for name in answers
    }


def test_a_tab_whose_session_ended_is_told_so_in_words_that_it_shows(tab: Tab) -> None:
    stranger = Annotator(Visitor(tab.url, tab.kept["agent"]), tab.kept["form_token"])
    refused = stranger.send(JUDGEMENTS, {"campaign": CAMPAIGN, "judgements": tab.kept["unsent"]})
    assert refused.status == 401  # the page keeps its outbox and asks its annotator to log in
    assert refused.json["error"]["message"]


def test_the_pages_stay_at_the_address_that_the_tab_knows(tab: Tab) -> None:
    assert tab.served.url == tab.url
