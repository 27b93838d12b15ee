"""The annotator's page in a real browser: judged by keyboard alone, quiet, accessible, and nothing is ever lost."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from tests.browser.campaign import CampaignServer, campaign_server, pair_lines
from tests.browser.chromium import chromium
from tests.browser.login import log_in
from tests.browser.pages_test import Tab
from tests.browser.reader import LETTERS, NARROW, SMALLEST_PIXELS, WIDE
from tests.scale import SOAK, rotated, scale
from tutti.client import connect
from tutti.contracts.annotation.v1 import (
    ANNOTATOR_STATE_RETRACTED,
    Axis,
    CloseCampaignRequest,
    ListAnnotatorsRequest,
    ListMessagesRequest,
    Overlap,
    PauseCampaignRequest,
    Qualification,
    RequalifyAnnotatorRequest,
    ResumeCampaignRequest,
    RetractAnnotatorRequest,
    RetractGuidelineRequest,
    UpdateGuidelineRequest,
    WeighAnnotatorRequest,
)
from tutti.contracts.common.v1 import GetRequest

LOOKS = [(NARROW, "dark"), (WIDE, "light"), (NARROW, "light"), (WIDE, "dark")]
TEXTS = "document.getElementById('prompt').innerText"
# Returns once the worker keeps the desk at this path.
KEPT = """async path => {
    for (let left = 600; left; left--) {
        if (navigator.serviceWorker.controller && (await caches.match(path))) return;
        await new Promise(resolve => setTimeout(resolve, 50));
    }
    throw new Error(`the worker did not keep ${path}`);
}"""
HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)> **bold** [link](http://elsewhere.example/)",
    "abc \u202etxt.exe\u202c zero\u200b\u200bwidth \ufeffend \x07 "
    "a\u200cb\u200ec\u200fd\u061ce\u2028f\u2800g\ufe0e \u0645\u06cc\u200c\u062e "
    "\U0001f469\u200d\U0001f680 \u2764\ufe0f",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignServer]:
    with campaign_server(tmp_path_factory.mktemp("platform")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Annotator:
    """Somebody who judges in a browser of his or her own; `pressed` are the keys that submitted, by pair shown."""

    def __init__(self, browser: Browser, server: CampaignServer, user: str, campaign: str, **tab: Any) -> None:
        self.server, self.user, self.campaign = server, user, campaign
        self.tab = Tab(browser, tab.pop("width", WIDE), tab.pop("scheme", "light"))
        self.page: Page = self.tab.page
        self.log_in()

    def log_in(self) -> None:
        log_in(self.page, f"{self.server.url}/login/{self.server.link(self.user)}?next=/annotation/{self.campaign}")
        self.page.wait_for_url(f"{self.server.url}/annotation/{self.campaign}")

    def begin(self) -> None:
        expect(self.page.get_by_role("heading", name="Before you begin")).to_be_visible()
        self.page.keyboard.press("Enter")
        self.shown()

    def shown(self) -> str:
        """The prompt of the pair, once one is shown."""
        expect(self.page.locator("#pair")).to_be_visible()
        return str(self.page.evaluate(TEXTS))

    def judge(self, *keys: str) -> str:
        """Press keys; when the last one has submitted, the prompt that was judged."""
        before = self.shown()
        for key in keys:
            self.page.keyboard.press(key)
        self.next_after(before)
        return before

    def next_after(self, before: str) -> None:
        """Wait until this pair was submitted: another one is shown, or none."""
        self.page.wait_for_function(
            f"before => document.getElementById('pair').hidden || {TEXTS} !== before", arg=before
        )

    def saved(self) -> None:
        """Wait until the server has what was submitted; call `next_after` first, as nothing submitted is saved too."""
        expect(self.page.locator("#saved")).to_have_text("saved", timeout=30_000)

    def close(self) -> None:
        self.tab.context.close()


@pytest.fixture
def annotate(browser: Browser, server: CampaignServer) -> Iterator[Callable[..., Annotator]]:
    made: list[Annotator] = []

    def make(user: str, campaign: str, **tab: Any) -> Annotator:
        made.append(Annotator(browser, server, user, campaign, **tab))
        return made[-1]

    yield make
    for each in made:
        each.close()


def judgements(server: CampaignServer, campaign: str) -> list[dict[str, Any]]:
    """Every judgement that the server has recorded, by arrival."""
    return stored(server, "SELECT * FROM judgements WHERE campaign = ? ORDER BY received_at, rowid", campaign)


def stored(server: CampaignServer, query: str, campaign: str) -> list[dict[str, Any]]:
    """The rows of a campaign; the database is locked, so a copy is read."""
    with tempfile.TemporaryDirectory() as folder:
        for each in (server.data_dir / "db").glob("annotation.db*"):
            shutil.copy(each, folder)
        with contextlib.closing(sqlite3.connect(Path(folder) / "annotation.db")) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, (f"campaigns/{campaign}",))]


def test_twenty_pairs_are_judged_by_keyboard_alone(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("twenty", "ada", pairs=pair_lines(20))
    ada = annotate("ada", "twenty")
    ada.begin()
    prompts = {ada.judge("123450"[number % 6]) for number in range(20)}
    expect(ada.page.locator("#panel")).to_be_visible()
    ada.saved()
    expect(ada.page.locator("#progress")).to_have_text("20 of 20")
    assert len(prompts) == 20
    found = judgements(server, "twenty")
    assert [json.loads(each["scores"])["helpful"] for each in found] == [
        (-2, -1, 0, 1, 2, "both_bad")[n % 6] for n in range(20)
    ]
    assert len({each["pair"] for each in found}) == 20
    assert ada.tab.heard == []
    assert [each for each in ada.tab.asked if not each.startswith(f"{server.url}/")] == []


def test_a_key_answers_the_active_axis_and_the_last_one_submits(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    axes = [Axis(name="helpful", rule="Which helps more?"), Axis(name="true", rule="Which is true?")]
    server.campaign("axes", "ada", pairs=pair_lines(3), axes=axes)
    ada = annotate("ada", "axes")
    ada.begin()
    expect(ada.page.locator("#rule")).to_have_text("Which helps more?")
    ada.page.keyboard.press("1")
    expect(ada.page.locator("#rule")).to_have_text("Which is true?")
    ada.judge("5")
    ada.page.get_by_role("group", name="true").get_by_label("Equal").check()
    ada.page.get_by_role("button", name="Submit").click()
    expect(ada.page.get_by_role("group", name="helpful").get_by_label("Left much better")).to_be_focused()
    ada.page.get_by_role("group", name="helpful").get_by_label("Both bad").check()
    ada.judge("Enter")
    ada.saved()
    found = [json.loads(each["scores"]) for each in judgements(server, "axes")]
    assert found == [{"helpful": -2, "true": 2}, {"helpful": "both_bad", "true": 0}]


def test_a_key_that_is_held_down_counts_once(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("held", "ada", pairs=pair_lines(6))
    ada = annotate("ada", "held")
    ada.begin()
    before = ada.shown()
    for _ in range(5):
        ada.page.keyboard.down("1")
    ada.page.evaluate("dispatchEvent(new KeyboardEvent('keydown', {key: '1', code: 'Digit1', bubbles: true}))")
    ada.page.keyboard.up("1")
    ada.next_after(before)
    ada.saved()
    assert len(judgements(server, "held")) == 1


def test_z_undoes_and_the_new_judgement_supersedes(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("undo", "ada", pairs=pair_lines(4))
    ada = annotate("ada", "undo")
    ada.begin()
    first, second = ada.judge("1"), ada.judge("1")
    third = ada.shown()
    ada.page.keyboard.press("z")
    assert ada.shown() == second
    ada.page.keyboard.press("z")
    assert ada.judge("5") == first
    assert ada.judge("4") == second
    assert ada.shown() == third
    ada.saved()
    expect(ada.page.locator("#progress")).to_have_text("2 of 4")
    found = judgements(server, "undo")
    current = [each for each in found if each["current"]]
    assert sorted(json.loads(each["scores"])["helpful"] for each in current) == [1, 2]
    assert {each["supersedes"] for each in current} == {each["id"] for each in found if not each["current"]}


def test_z_undoes_ten_pairs_and_no_eleventh(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("deep", "ada", pairs=pair_lines(13))
    ada = annotate("ada", "deep")
    ada.begin()
    judged = [ada.judge("1") for _ in range(11)]
    for before in reversed(judged[1:]):
        ada.page.keyboard.press("z")
        assert ada.shown() == before
    ada.page.keyboard.press("z")
    expect(ada.page.locator("#notice")).to_have_text("There is nothing to undo.")
    assert ada.shown() == judged[1]
    assert [ada.judge("5") for _ in range(10)] == judged[1:]
    ada.saved()
    expect(ada.page.locator("#progress")).to_have_text("11 of 13")
    current = [json.loads(each["scores"])["helpful"] for each in judgements(server, "deep") if each["current"]]
    assert sorted(current) == [-2, *[2] * 10]


def test_a_pair_is_skipped_flagged_or_commented_with_words(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("words", "ada", pairs=pair_lines(4))
    ada = annotate("ada", "words")
    ada.begin()
    before = ada.shown()
    ada.page.keyboard.press("s")
    ada.page.get_by_label("I lack the knowledge").check()
    assert ada.tab.violations() == []
    ada.page.keyboard.press("Enter")
    ada.next_after(before)
    before = ada.shown()
    ada.page.keyboard.press("f")
    flag = ada.page.get_by_role("button", name="Flag this pair")
    flag.click()
    expect(ada.page.locator("#dialog")).to_be_visible()  # no reason is chosen for the annotator
    assert ada.tab.violations() == []
    ada.page.get_by_label("Harmful content").check()
    flag.click()
    ada.next_after(before)
    ada.shown()
    ada.page.keyboard.press("c")
    ada.page.get_by_role("textbox").fill("1 2 3: both are long")
    assert ada.tab.violations() == []
    ada.page.keyboard.press("Control+Enter")
    ada.judge("3")
    ada.saved()
    found = judgements(server, "words")
    assert [(each["said"], each["reason"]) for each in found] == [
        ("skipped", "expertise"),
        ("flagged", "harmful"),
        ("judged", ""),
    ]


def test_a_text_that_was_begun_is_shown_again_before_the_pair_is_judged(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("begun", "ada", pairs=pair_lines(4))
    ada = annotate("ada", "begun")
    ada.begin()
    ada.page.keyboard.press("e")
    text = ada.page.get_by_role("textbox", name="Write a better answer")
    text.fill("Half a sentence")
    ada.page.keyboard.press("Escape")
    expect(ada.page.locator("#notice")).to_contain_text("Press E to finish it")
    before = ada.shown()
    ada.page.keyboard.press("1")
    expect(text).to_have_value("Half a sentence")
    text.fill("A whole sentence.")
    ada.page.get_by_role("button", name="Keep this text").click()
    ada.next_after(before)
    ada.saved()
    rows = stored(server, "SELECT * FROM written_demonstrations WHERE campaign = ?", "begun")
    assert [json.loads(each["words"]) for each in rows] == ["A whole sentence."]


def test_a_better_answer_is_written_by_key_and_kept_when_its_judgement_is_undone(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("better", "ada", pairs=pair_lines(4))
    ada = annotate("ada", "better")
    ada.begin()
    ada.page.keyboard.press("e")
    text = ada.page.get_by_role("textbox", name="Write a better answer")
    ada.page.get_by_role("button", name="Start from the right answer").click()
    ada.page.get_by_role("button", name="Keep this text").click()
    assert text.evaluate("each => each.validationMessage").startswith("This is one of the two answers, unchanged.")
    assert text.input_value() in [each for line in pair_lines(4).splitlines() for each in json.loads(line)["answers"]]
    text.fill("One that is true.")
    expect(ada.page.get_by_role("button", name="Start from the left answer")).to_be_disabled()
    ada.page.get_by_role("button", name="Keep this text").click()
    expect(ada.page.locator("#notice")).to_contain_text("will be sent with your judgement")
    ada.judge("1")
    ada.page.keyboard.press("z")
    ada.judge("2")
    ada.saved()
    rows = stored(server, "SELECT * FROM written_demonstrations WHERE campaign = ?", "better")
    assert {json.loads(each["words"]) for each in rows} == {"One that is true."}
    assert sorted(each["state"] for each in rows) == ["withdrawn", "written"]


def test_dialogs_differences_and_pause_are_reached_by_keys(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("keys", "ada", pairs=pair_lines(3))
    ada = annotate("ada", "keys")
    ada.begin()
    for key, title in (("?", "All keys"), ("g", "Guideline")):
        ada.page.keyboard.press(key)
        expect(ada.page.get_by_role("dialog", name=title)).to_be_visible()
        ada.page.keyboard.press("Escape")
    ada.page.keyboard.press("d")
    expect(ada.page.locator("#left mark")).not_to_have_count(0)
    assert ada.tab.violations() == []
    ada.page.keyboard.press("d")
    expect(ada.page.locator("#left mark, #right mark")).to_have_count(0)
    before = ada.shown()
    ada.page.keyboard.press("p")
    expect(ada.page.get_by_role("heading", name="Paused")).to_be_visible()
    assert ada.tab.violations() == []
    ada.page.keyboard.press("1")
    ada.page.keyboard.press("p")
    assert ada.shown() == before
    assert judgements(server, "keys") == []


def test_the_qualification_explains_each_answer_and_then_pairs_follow(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("qualify", "ada", pairs=pair_lines(5), qualification=Qualification(pairs=2, right=2))
    ada = annotate("ada", "qualify")
    ada.begin()
    expect(ada.page.locator("#progress")).to_have_text("Qualification: 0 of 2")
    for key, title in (("1", "That was not right"), ("3", "That was right"), ("3", "That was right")):
        ada.judge(key)
        expect(ada.page.get_by_role("heading", name=title)).to_be_visible()
        assert ada.tab.violations() == []
        ada.page.keyboard.press("Enter")
        ada.shown()
    expect(ada.page.locator("#notice")).to_have_text("You have qualified. The next pairs count.")
    ada.judge("2")
    ada.saved()
    expect(ada.page.locator("#progress")).to_contain_text("1 of ")


def test_who_did_not_qualify_is_told_and_takes_the_qualification_again_when_the_owner_allows_it(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("failed", "ada", pairs=pair_lines(4), qualification=Qualification(pairs=1, right=1))
    ada = annotate("ada", "failed")
    ada.begin()
    for _ in range(4):
        ada.judge("1")
        expect(ada.page.get_by_role("heading", name="That was not right")).to_be_visible()
        ada.page.keyboard.press("Enter")
        ada.page.wait_for_function("() => document.getElementById('panel-go').hidden")
    expect(ada.page.get_by_role("heading", name="You get no more pairs")).to_be_visible()
    expect(ada.page.get_by_text("the owner of the campaign can let you take it again")).to_be_visible()
    assert ada.tab.violations() == []
    with connect(server.data_dir) as client:
        request = RequalifyAnnotatorRequest(request_id="r", campaign="campaigns/failed", key="a000")
        client.annotation.RequalifyAnnotator(request)
    ada.page.reload()
    ada.begin()
    expect(ada.page.locator("#progress")).to_have_text("Qualification: 0 of 1")
    ada.judge("3")
    expect(ada.page.get_by_role("heading", name="That was right")).to_be_visible()


def test_a_changed_guideline_is_shown_before_the_next_pair_and_nothing_is_lost(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("changed", "ada", pairs=pair_lines(5))
    ada = annotate("ada", "changed")
    ada.begin()
    ada.judge("1")
    ada.saved()
    with connect(server.data_dir) as client:
        text = "# What helps\n\nPrefer the answer that *explains* more.\n\n- It is short.\n- It is kind.\n"
        client.annotation.UpdateGuideline(UpdateGuidelineRequest(request_id="u", name="campaigns/changed", text=text))
    ada.judge("2")
    expect(ada.page.get_by_role("heading", name="The guideline has changed")).to_be_visible()
    panel = ada.page.locator("#panel-body")
    expect(panel.locator(".heading")).to_have_text("What helps")
    expect(panel.locator("em mark")).to_have_text("explains")
    assert panel.locator("mark").all_text_contents() == ["explains", "It is kind."]
    assert panel.locator("em del").all_text_contents() == ["helps"]
    assert panel.locator("li del").all_text_contents() == ["It is true."]
    assert panel.locator("li").all_text_contents() == ["It is true.", "It is short.", "It is kind."]
    assert not {"#", "*"} & set(str(panel.text_content()))
    assert ada.tab.violations() == []
    ada.page.keyboard.press("Enter")
    for _ in range(4):
        ada.judge("2")
    ada.saved()
    assert len({each["pair"] for each in judgements(server, "changed")}) == 5


def test_a_paused_campaign_says_so(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("paused", "ada", pairs=pair_lines(2))
    with connect(server.data_dir) as client:
        client.annotation.PauseCampaign(PauseCampaignRequest(request_id="p", name="campaigns/paused"))
    ada = annotate("ada", "paused")
    expect(ada.page.get_by_role("heading", name="The campaign is paused")).to_be_visible()
    assert ada.tab.violations() == []


def test_an_annotator_who_came_during_a_pause_reads_the_warning_before_the_first_pair(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("early", "ada", pairs=pair_lines(2), warning="violence")
    with connect(server.data_dir) as client:
        client.annotation.PauseCampaign(PauseCampaignRequest(request_id="early", name="campaigns/early"))
    ada = annotate("ada", "early")
    expect(ada.page.get_by_role("heading", name="The campaign is paused")).to_be_visible()
    with connect(server.data_dir) as client:
        client.annotation.ResumeCampaign(ResumeCampaignRequest(request_id="go", name="campaigns/early"))
    ada.page.evaluate("dispatchEvent(new Event('focus'))")  # who comes back to the page need not wait for its next look
    expect(ada.page.locator("#panel, #pair").get_by_text("violence")).to_be_visible()
    ada.begin()


def test_a_long_guideline_is_shown_from_its_beginning(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    long = "# Which answer helps more?\n\n" + "\n\n".join(f"Rule {number} of many." for number in range(100))
    server.campaign("lengthy", "ada", pairs=pair_lines(2), guideline=long)
    ada = annotate("ada", "lengthy", width=NARROW)
    expect(ada.page.get_by_role("heading", name="Before you begin")).to_be_in_viewport()
    ada.begin()
    ada.page.keyboard.press("g")
    expect(ada.page.locator("#dialog-title")).to_be_in_viewport()


@pytest.mark.parametrize(("width", "scheme"), LOOKS if SOAK else LOOKS[:2])
def test_the_page_is_accessible_and_fits_in_both_directions(
    server: CampaignServer, annotate: Callable[..., Annotator], width: int, scheme: str
) -> None:
    campaign = f"look-{width}-{scheme}"
    server.campaign(campaign, "ada", pairs=pair_lines(3))
    ada = annotate("ada", campaign, width=width, scheme=scheme)
    assert ada.tab.violations() == []
    ada.begin()
    for language, direction in (("en", "ltr"), ("ar", "rtl")):
        ada.page.locator("#language").select_option(language)
        assert ada.page.locator("#desk").get_attribute("dir") == direction
        assert ada.tab.violations() == []
        assert ada.page.evaluate("document.documentElement.scrollWidth") == width
        assert [each for each in ada.page.evaluate(LETTERS) if each["pixels"] < SMALLEST_PIXELS] == []
        places = {("en", WIDE): "Left", ("en", NARROW): "First", ("ar", WIDE): "اليسرى", ("ar", NARROW): "الأولى"}
        for named in ("#left-title", "#axes label >> nth=0"):
            expect(ada.page.locator(named)).to_contain_text(places[language, width])
        left, right = (ada.page.locator(each).bounding_box() for each in ("#left", "#right"))
        assert left is not None
        assert right is not None
        assert left["y"] < right["y"] if width == NARROW else left["x"] < right["x"]
        question, scores = (ada.page.locator(each).bounding_box() for each in ("#rule", "#axes"))
        assert question is not None
        assert scores is not None
        assert question["y"] + question["height"] <= scores["y"]
        ada.page.keyboard.press("?")
        expect(ada.page.locator("#dialog")).to_be_visible()
        assert ada.tab.violations() == []
        ada.page.keyboard.press("Escape")
    assert ada.tab.heard == []


def test_hostile_answers_are_shown_harmlessly(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    line = {"prompt": [{"role": "user", "content": "אבג <b>x</b>"}], "answers": HOSTILE}
    server.campaign("hostile", "ada", pairs=json.dumps(line) + "\n")
    ada = annotate("ada", "hostile")
    ada.begin()
    shown = " ".join(ada.page.locator(each).inner_text() for each in ("#left", "#right"))
    assert "<script>alert(1)</script>" in shown
    assert "[link](http://elsewhere.example/)" in shown
    for each in ("U+202E", "U+202C", "U+200B x 2", "U+FEFF", "U+0007", "U+061C", "U+2028", "U+2800", "U+FE0E"):
        assert each in shown
    assert "aU+200CbU+200EcU+200FdU+061C" in shown
    assert shown.count("U+200D") == 0, "joiners shape letters and emoji"
    assert ada.page.locator("#pair :is(script, img, a, b)").count() == 0
    assert ada.page.locator("#prompt p").first.evaluate("e => getComputedStyle(e).direction") == "rtl"
    assert ada.tab.heard == []


def test_very_long_answers_do_not_hang_the_page(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    """Longer than the server takes, so the answer of the call is made longer on its way."""
    server.campaign("long", "ada", pairs=pair_lines(2))
    ada = annotate("ada", "long")
    texts = ["*a **b `c " * 100_000, "x" * 1_000_000]

    def lengthen(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for pair in body["pairs"]:
            pair["answers"] = texts
        route.fulfill(response=answer, json=body)

    ada.page.route("**/annotation/api/leases", lengthen)
    ada.begin()
    ada.page.keyboard.press("d")
    ada.page.keyboard.press("d")
    ada.page.locator("#right").get_by_role("button", name="Show all 1,000,000 characters").click()
    assert ada.page.locator("#right").evaluate("each => each.textContent.length") == 1_000_000
    ada.judge("1")
    ada.saved()
    ada.page.unroute_all(behavior="wait")


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_long_prompt_begins_at_its_beginning_and_the_scores_stay_in_place(
    server: CampaignServer, annotate: Callable[..., Annotator], width: int
) -> None:
    """However long the texts are, what is pressed next is where it was, and a mark shows that there is more."""
    turns = [{"role": "user", "content": f"Turn {at}.\n\n" * 20} for at in range(9)]
    short, long = [{"role": "user", "content": "Short?"}], ["ab\n\n" * 300, "c\n\n" * 300]
    pairs = [{"prompt": short, "answers": ["a", "b"]}, {"prompt": turns, "answers": long}]
    name = f"places-{width}"
    server.campaign(name, "ada", pairs="".join(f"{json.dumps(each)}\n" for each in pairs))
    ada = annotate("ada", name, width=width)
    ada.begin()
    found = {}
    for last in (False, True):
        is_long = "Turn" in ada.shown()
        expect(ada.page.locator("#prompt-more")).to_be_visible(visible=is_long)
        if is_long:
            assert ada.page.locator("#prompt").evaluate("each => each.scrollTop") == 0
            assert ada.tab.violations() == []
            while ada.page.locator("#prompt-more").is_visible():
                ada.page.locator("#prompt-more").press("Enter")
            expect(ada.page.locator("#prompt")).to_be_focused()
        box = ada.page.locator("#scores").bounding_box()
        assert box is not None
        found[is_long] = round(box["y"])
        if not last:
            ada.judge("1")
    assert found[True] == found[False]


def test_both_answers_scroll_together(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    line = {
        "prompt": [{"role": "user", "content": "Long?"}],
        "answers": ["\n\n".join("ab" * 200), "\n\n".join("c" * 90)],
    }
    server.campaign("scroll", "ada", pairs=json.dumps(line) + "\n")
    ada = annotate("ada", "scroll")
    ada.begin()
    for one, other in (("#left", "#right"), ("#right", "#left")):
        ada.page.locator(one).evaluate("each => { each.scrollTop = each.scrollHeight }")
        at_end = "each => Math.abs(each.scrollTop + each.clientHeight - each.scrollHeight) < 2"
        ada.page.wait_for_function(f"() => ({at_end})(document.querySelector('{other}'))")
        ada.page.locator(one).evaluate("each => { each.scrollTop = 0 }")
        ada.page.wait_for_function(f"() => document.querySelector('{other}').scrollTop === 0")


def test_two_tabs_judge_no_pair_twice(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("tabs", "ada", pairs=pair_lines(8))
    ada = annotate("ada", "tabs")
    ada.begin()
    other = ada.tab.context.new_page()
    other.goto(f"{server.url}/annotation/tabs")
    expect(other.locator("#panel-go")).to_be_visible()
    other.keyboard.press("Enter")
    expect(other.locator("#pair")).to_be_visible()
    pages = (ada.page, other)
    for number in range(8):
        page, second = pages[number % 2], pages[1 - number % 2]
        before = page.evaluate(TEXTS)
        page.keyboard.press("1")
        second.wait_for_function(f"before => document.getElementById('pair').hidden || {TEXTS} !== before", arg=before)
        page.wait_for_function(f"before => document.getElementById('pair').hidden || {TEXTS} !== before", arg=before)
    for page in pages:
        expect(page.locator("#saved")).to_have_text("saved")
    found = judgements(server, "tabs")
    assert (len(found), len({each["pair"] for each in found})) == (8, 8)


def question(prompt: str) -> int:
    """The number of a pair, by its prompt."""
    return int(re.findall(r"Question (\d+)\?", prompt)[-1])


def test_nothing_is_lost_or_doubled_over_interruptions(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    """The server is killed, suspended, stopped; the page is loaded again, the browser is offline, the session ends."""
    interruptions = scale(test=6, soak=200)
    server.campaign("torn", "ada", pairs=pair_lines(6 * interruptions))
    ada = annotate("ada", "torn")
    ada.begin()
    pressed: dict[int, int] = {}

    def note(score: int) -> str:
        """Record the score of the first answer of the pair that is shown; the key of this score for what is shown."""
        number = question(ada.shown())
        is_first = ada.page.locator("#left").inner_text().startswith("The first answer to")
        assert number not in pressed
        pressed[number] = score if is_first else -score
        return "12345"[score + 2]

    def press(times: int) -> None:
        for _ in range(times):
            ada.judge(note(len(pressed) % 5 - 2))

    def reload() -> None:
        ada.page.reload()
        ada.page.wait_for_function(
            "() => !document.getElementById('panel').hidden || !document.getElementById('pair').hidden"
        )
        if ada.page.locator("#panel-go").is_visible():
            ada.page.keyboard.press("Enter")
        ada.shown()

    kinds = ("kill", "suspend", "reload", "offline", "session", "down")
    for kind in itertools.islice(itertools.cycle(kinds), interruptions):
        press(2)
        if kind in ("kill", "down"):
            reload()
            ada.page.evaluate(KEPT, "/annotation/torn")
            (server.kill if kind == "kill" else server.stop)()
            press(2)
            reload()
            server.start()
        elif kind == "suspend":
            server.suspend()
            press(2)
            server.resume()
        elif kind == "reload":
            ada.page.keyboard.press(note(-2))  # not even the next pair is awaited
            reload()
        elif kind == "offline":
            ada.tab.context.set_offline(True)
            press(2)
            expect(ada.page.locator("#saved")).to_contain_text(re.compile(r"offline, [2-4] waiting"))
            ada.tab.context.set_offline(False)
        else:
            ada.tab.context.clear_cookies()
            press(2)
            expect(ada.page.locator("#saved")).to_contain_text(
                re.compile("You are signed out. Nothing is lost: [2-4] waiting")
            )
            again = ada.tab.context.new_page()
            log_in(again, f"{server.url}/login/{server.link('ada')}?next=/annotation")
            again.wait_for_url(f"{server.url}/annotation")
            again.close()
        ada.saved()
    found = judgements(server, "torn")
    assert (len(found), len({each["pair"] for each in found})) == (len(pressed), len(pressed))
    prompts = {each["id"]: each["prompt"] for each in stored(server, "SELECT * FROM pairs WHERE campaign = ?", "torn")}
    scores = {question(prompts[each["pair"]]): json.loads(each["scores"])["helpful"] for each in found}
    turned = {question(prompts[each["pair"]]) for each in found if each["flipped"]}
    assert {number: -score if number in turned else score for number, score in scores.items()} == pressed


COUNTS = """async () => {
    const answer = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
    const database = await answer(indexedDB.open("tutti/annotation"));
    const counts = {};
    for (const name of database.objectStoreNames) {
        counts[name] = await answer(database.transaction(name).objectStore(name).count());
    }
    database.close();
    return counts;
}"""


def test_another_annotator_of_the_same_browser_sends_nothing_of_the_first(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("shared", "ada", "bob", pairs=pair_lines(6))
    ada = annotate("ada", "shared")
    ada.begin()
    ada.page.evaluate(KEPT, "/annotation/shared")
    assert ada.page.evaluate(COUNTS)["desks"] == 1
    ada.tab.context.clear_cookies()
    ada.judge("1")
    expect(ada.page.locator("#saved")).to_contain_text("You are signed out")
    other = ada.tab.context.new_page()
    log_in(other, f"{server.url}/login/{server.link('bob')}?next=/annotation")
    other.wait_for_url(f"{server.url}/annotation")
    assert other.evaluate(COUNTS) == {
        "desks": 0,
        "drafts": 0,
        "outbox": 1,
    }  # what was fetched is gone, unsent work stays
    assert not other.evaluate("async () => (await caches.match('/annotation/shared')) !== undefined")
    other.goto(f"{server.url}/annotation/shared")
    expect(other.locator("#notice")).to_contain_text("of another annotator that wait in this browser: 1.")
    ada.page.evaluate("dispatchEvent(new Event('online'))")
    expect(ada.page.get_by_role("heading", name="You are signed out")).to_be_visible()
    expect(ada.page.locator("#pair")).to_be_hidden()
    expect(ada.page.locator("#saved")).to_contain_text("Nothing is lost: 1 waiting")
    log_in(other, f"{server.url}/login/{server.link('ada')}?next=/annotation/shared")
    expect(other.locator("#saved")).to_have_text("saved", timeout=30_000)
    (found,) = judgements(server, "shared")
    assert found["annotator"] != ""


def test_the_page_names_no_writer_and_no_control(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("blind", "ada", pairs=pair_lines(6), controls=0.4)
    ada = annotate("ada", "blind")
    answers: list[str] = []
    ada.page.on(
        "response", lambda response: answers.append(response.text()) if "/annotation/" in response.url else None
    )
    ada.page.reload()
    ada.begin()
    ada.judge("1")
    ada.saved()
    assert len(answers) >= 3
    for each in ("filler", "swapped", "control", "source", "checkpoint", "flipped", 'better"'):
        assert not [text for text in answers if each in text.lower() and text.startswith("{")]


@pytest.mark.parametrize(("width", "scheme"), rotated(LOOKS[:2], test=1))
def test_an_owner_sees_the_progress_of_a_campaign_while_it_is_judged(
    server: CampaignServer, browser: Browser, annotate: Callable[..., Annotator], width: int, scheme: str
) -> None:
    campaign = f"owned-{width}"
    server.campaign(campaign, "ada", "bob", pairs=pair_lines(4))
    owner = Tab(browser, width, scheme)
    log_in(owner.page, f"{server.url}/login/{server.operator_link()}?next=/annotation")
    owner.page.get_by_role("link", name=campaign).click()
    expect(owner.page.get_by_role("heading", name=campaign)).to_be_visible()
    expect(owner.page.locator("#live")).to_have_text("· live")
    expect(owner.page.get_by_text("of 8 wanted")).to_be_visible()
    ada = annotate("ada", campaign)
    ada.begin()
    ada.judge("1")
    ada.judge("2")
    ada.saved()
    expect(owner.page.locator("progress")).to_have_js_property("value", 2, timeout=20_000)
    ada.page.keyboard.press("s")
    ada.page.get_by_label("I lack the knowledge").check()
    ada.page.locator("#dialog textarea").fill("I never saw the sea.")
    ada.page.get_by_role("button", name="Skip this pair").click()
    remarks = owner.page.get_by_role("region", name="Remarks")
    expect(remarks).to_contain_text("I never saw the sea.", timeout=20_000)
    expect(owner.page.get_by_text("0 of control pairs, 1 skipped or flagged")).to_be_visible()
    expect(ada.page.locator("#progress")).to_have_text("3 of 4")
    expect(owner.page.get_by_text("of one person in all")).to_be_visible()
    assert owner.violations() == []
    assert owner.page.evaluate("document.documentElement.scrollWidth") == width
    owner.page.get_by_role("link", name="Preview as an annotator").click()
    expect(owner.page.get_by_role("article", name="Pair 1")).to_be_visible()
    expect(owner.page.locator("pre.wrapped")).to_have_count(0)  # shown as the desk shows it
    assert owner.violations() == []
    assert owner.page.evaluate("document.documentElement.scrollWidth") == width
    owner.page.get_by_role("link", name="Back to the campaign").click()
    owner.page.get_by_role("link", name="Pairs to look at").click()
    expect(owner.page.get_by_role("heading", name="Skipped")).to_be_visible()
    expect(owner.page.get_by_role("region", name="What annotators said")).to_contain_text("I never saw the sea.")
    expect(owner.page.locator("pre.wrapped")).to_have_count(0)
    assert owner.violations() == []
    assert owner.page.evaluate("document.documentElement.scrollWidth") == width
    assert owner.heard == []
    owner.page.goto(f"{server.url}/annotation/{campaign}")
    expect(owner.page.get_by_text("you are not an annotator of this campaign")).to_be_visible()
    owner.context.close()


@pytest.mark.parametrize(("width", "scheme"), rotated(LOOKS[:2], test=1))
def test_an_annotator_writes_to_the_owner_and_reads_the_answer(
    server: CampaignServer, browser: Browser, annotate: Callable[..., Annotator], width: int, scheme: str
) -> None:
    campaign = f"asking-{width}"
    server.campaign(campaign, "ada", pairs=pair_lines(3))
    ada = annotate("ada", campaign, width=width, scheme=scheme)
    ada.begin()
    ada.page.keyboard.press("a")
    ada.page.get_by_role("textbox").fill("May an answer be long? 1 2 3")
    assert ada.tab.violations() == []
    ada.page.keyboard.press("Escape")
    expect(ada.page.locator("#notice")).to_contain_text("not sent yet")
    ada.page.reload()
    ada.begin()
    ada.page.keyboard.press("a")
    expect(ada.page.get_by_role("textbox")).to_have_value("May an answer be long? 1 2 3")
    ada.page.get_by_role("button", name="Send").click()
    expect(ada.page.locator("#notice")).to_contain_text("Your message was sent")
    owner = Tab(browser, width, scheme)
    log_in(owner.page, f"{server.url}/login/{server.operator_link()}?next=/annotation/{campaign}/overview")
    owner.page.get_by_role("link", name="Messages: 1 without an answer").click()
    expect(owner.page.get_by_role("article", name="Message of a000")).to_contain_text("May an answer be long?")
    owner.page.get_by_label("Answer").fill("It may, where that helps.")
    owner.page.get_by_role("button", name="Send").click()
    expect(owner.page.get_by_role("article")).to_contain_text("It may, where that helps.")
    assert owner.violations() == []
    assert owner.page.evaluate("document.documentElement.scrollWidth") == width
    assert owner.heard == []
    owner.context.close()
    for _ in range(3):
        ada.judge("3")
    expect(ada.page.locator("#notice")).to_contain_text("The owner has answered", timeout=30_000)
    ada.page.keyboard.press("a")
    expect(ada.page.locator("#dialog")).to_contain_text("It may, where that helps.")
    assert ada.tab.violations() == []


def test_who_was_retracted_objects(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("objecting", "ada", pairs=pair_lines(3))
    with connect(server.data_dir) as client:
        request = RetractAnnotatorRequest(
            request_id="objecting", campaign="campaigns/objecting", key="a000", reason="answered without reading"
        )
        client.annotation.RetractAnnotator(request)
    ada = annotate("ada", "objecting")
    expect(ada.page.locator("#panel")).to_contain_text("answered without reading")
    assert ada.tab.violations() == []
    ada.page.locator("#panel").get_by_role("button", name="Write to the owner").click()
    ada.page.get_by_role("textbox").fill("I read every answer.")
    ada.page.keyboard.press("Control+Enter")
    expect(ada.page.locator("#notice")).to_contain_text("Your message was sent")
    with connect(server.data_dir) as client:
        (found,) = client.annotation.ListMessages(ListMessagesRequest(campaign="campaigns/objecting")).messages
    assert (found.annotator, found.text) == ("a000", "I read every answer.")


def test_who_counts_less_reads_why(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("weighed", "ada", pairs=pair_lines(3))
    with connect(server.data_dir) as client:
        request = WeighAnnotatorRequest(campaign="campaigns/weighed", key="a000", weight=0.5, reason="too fast")
        client.annotation.WeighAnnotator(request)
    ada = annotate("ada", "weighed")
    expect(ada.page.locator("#notice")).to_contain_text("0.5 (1 is the most). Reason: too fast")
    ada.page.keyboard.press("m")
    expect(ada.page.locator("#dialog")).to_contain_text("Reason: too fast")
    assert ada.tab.violations() == []


def test_an_owner_leaves_a_flagged_pair_out_and_counts_it_again(
    server: CampaignServer, browser: Browser, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("settled", "ada", pairs=pair_lines(4))
    ada = annotate("ada", "settled")
    ada.begin()
    ada.page.keyboard.press("f")
    ada.page.get_by_label("Something is broken").check()
    ada.page.get_by_role("button", name="Flag this pair").click()
    ada.saved()
    owner = Tab(browser, WIDE, "light")
    log_in(owner.page, f"{server.url}/login/{server.operator_link()}?next=/annotation/settled/disputed")
    leave = owner.page.get_by_role("button", name="Leave it out")
    leave.click()  # the browser asks for a reason
    owner.page.get_by_label("Reason").fill("the second answer is cut off")
    leave.click()
    decided = owner.page.get_by_role("heading", name="Left out: the second answer is cut off")
    expect(decided).to_be_visible()
    assert owner.violations() == []
    owner.page.get_by_role("link", name="Back to the campaign").click()
    expect(owner.page.get_by_text("1 you left out")).to_be_visible()
    expect(owner.page.get_by_text("of 3 wanted")).to_be_visible()
    owner.page.get_by_role("link", name="Pairs to look at").click()
    owner.page.get_by_role("button", name="Count its judgements").click()
    expect(owner.page.get_by_role("heading", name="Counts")).to_be_visible()
    with connect(server.data_dir) as client:
        found = client.annotation.GetCampaign(GetRequest(name="campaigns/settled"))
    assert (found.wanted, found.settled_out) == (4, 0)
    assert owner.heard == []
    owner.context.close()


def retract_guideline(server: CampaignServer, name: str) -> None:
    """The guideline of a campaign is replaced, and what was judged by it counts no more."""
    with connect(server.data_dir) as client:
        old = client.annotation.GetCampaign(GetRequest(name=name)).guideline
        update = UpdateGuidelineRequest(request_id="update", name=name, text="Prefer what is true.")
        client.annotation.UpdateGuideline(update)
        request = RetractGuidelineRequest(request_id="retract", campaign=name, version=old, reason="it was wrong")
        client.annotation.RetractGuideline(request)


def test_an_old_answer_of_the_server_that_comes_late_changes_nothing(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    """The page asks twice for its state when a guideline was retracted; one answer comes after the new one is read."""
    server.campaign("late", "ada", pairs=pair_lines(3))
    ada = annotate("ada", "late")
    ada.begin()
    ada.judge("1")
    ada.judge("1")
    ada.saved()
    asked: list[Route] = []
    late: list[APIResponse] = []

    def hold_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()
        else:
            late.append(route.fetch())

    retract_guideline(server, "campaigns/late")
    ada.page.route("**/annotation/late/state.json", hold_the_first)
    ada.page.keyboard.press("1")
    expect(ada.page.get_by_role("heading", name="The guideline has changed")).to_be_visible(timeout=30_000)
    ada.page.keyboard.press("Enter")
    ada.shown()
    (held,) = late
    assert held.json()["state"] == "guideline_changed"
    with ada.page.expect_response("**/annotation/late/state.json"):
        asked[0].fulfill(response=held)
    assert len({ada.judge("5") for _ in range(3)}) == 3
    ada.saved()
    expect(ada.page.locator("#progress")).to_have_text("3 of 3")


def test_pairs_of_a_retracted_guideline_are_shown_again_on_the_open_page(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("retracted", "ada", pairs=pair_lines(3))
    ada = annotate("ada", "retracted")
    ada.begin()
    judged = {ada.judge("1"), ada.judge("1")}
    ada.saved()
    retract_guideline(server, "campaigns/retracted")
    ada.page.keyboard.press("1")
    expect(ada.page.get_by_role("heading", name="The guideline has changed")).to_be_visible(timeout=30_000)
    ada.page.keyboard.press("Enter")
    again = {ada.judge("5") for _ in range(3)}
    assert again > judged
    ada.saved()
    expect(ada.page.locator("#progress")).to_have_text("3 of 3")


def test_a_changed_guideline_can_be_confirmed_while_the_page_looks_again(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    """The page shows it as no pair is left; then the last judgement is refused, and the page asks where it stands."""
    server.campaign("confirmed", "ada", pairs=pair_lines(1))
    ada = annotate("ada", "confirmed")
    ada.begin()
    retract_guideline(server, "campaigns/confirmed")
    held: list[Route] = []
    ada.page.route("**/annotation/api/judgements", lambda route: held.append(route))
    ada.page.keyboard.press("1")
    expect(ada.page.get_by_role("heading", name="The guideline has changed")).to_be_visible(timeout=30_000)
    asked: list[Route] = []
    ada.page.route("**/annotation/confirmed/state.json", lambda route: asked.append(route))
    with ada.page.expect_request("**/annotation/confirmed/state.json"):
        held[0].fulfill(response=held[0].fetch())
    ada.page.unroute("**/annotation/confirmed/state.json")
    ada.page.keyboard.press("Enter")
    ada.shown()


def test_an_overview_is_for_owners_alone(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("private", "ada", pairs=pair_lines(2))
    ada = annotate("ada", "private")
    for page in ("overview", "disputed", "differing", "preview", "messages"):
        ada.page.goto(f"{server.url}/annotation/private/{page}")
        expect(ada.page.get_by_role("heading", name="You may not see this")).to_be_visible()
    ada.page.goto(f"{server.url}/annotation")
    expect(ada.page.get_by_role("link", name="private")).to_be_visible()
    assert ada.page.get_by_role("heading", name="Campaigns").count() == 0


class Stranger(BaseHTTPRequestHandler):
    """Another program, which is content with whatever it is sent."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"accepted": [], "refused": []}')

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def stranger(url: str) -> Iterator[None]:
    """Another program that answers at this address."""
    place = urlsplit(url)
    with ThreadingHTTPServer((str(place.hostname), place.port or 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def take(page: Page, content: bytes) -> list[str]:
    """What became of each judgement of a file that the page was given; the reason alone where it took none."""
    page.get_by_role("button", name="Take judgements from a file").press("Enter")
    file: Any = {"name": "judgements.json", "mimeType": "application/json", "buffer": content}
    page.locator("#dialog input").set_input_files(file)
    page.locator("#dialog-ok").press("Enter")
    told = page.locator("#dialog [data-reason]")
    expect(told.first).to_be_visible()
    found = told.evaluate_all("all => all.map(({ dataset }) => `${dataset.outcome ?? ''} ${dataset.reason}`.trim())")
    page.keyboard.press("Escape")
    return list(map(str, found))


def test_judgements_move_in_a_file_when_another_program_has_the_address(tmp_path: Path, browser: Browser) -> None:
    with campaign_server(tmp_path / "platform") as server:
        server.campaign("moved", "ada", pairs=pair_lines(8))
        ada = Annotator(browser, server, "ada", "moved", width=NARROW)
        ada.begin()
        judged = [ada.judge("1")]
        ada.saved()
        ada.page.evaluate(KEPT, "/annotation/moved")
        former = server.url
        server.stop()
        ada.page.reload()
        judged.append(ada.judge("2"))
        with stranger(former):
            server.start()
            ada.page.reload()
            judged.append(ada.judge("3"))
            expect(ada.page.locator("#saved")).to_have_text("offline, 2 waiting")
            assert ada.tab.violations() == []
            with ada.page.expect_download() as download:
                ada.page.get_by_role("button", name="Save to a file").press("Enter")
            saved = Path(download.value.path()).read_bytes()
            assert b"Question" not in saved
            content = json.loads(saved)
            first, second = content["judgements"]

            ada.tab.page = new = ada.tab.context.new_page()
            new.goto(f"{server.url}/annotation/moved")
            expect(new.locator("#moved-words")).to_contain_text(former)
            expect(new.locator("#pair")).to_be_visible()
            assert ada.tab.violations() == []
            assert new.evaluate("document.documentElement.scrollWidth") == NARROW

            def changed(**fields: object) -> bytes:
                return json.dumps(content | fields).encode()

            assert take(new, b" " * ((8 << 20) + 1)) == ["fileTooLarge"]
            assert take(new, b'"\xff"') == take(new, b"[" * 100_000) == ["fileNoJson"]
            assert take(new, changed(version=2)) == ["fileOtherVersion"]
            assert take(new, changed(campaign="another")) == ["fileOtherCampaign"]
            assert take(new, changed(user="users/bob")) == take(new, changed(annotator="bob")) == ["fileOtherAnnotator"]
            lists: list[Any] = [{}, [], [None], [first, first], [first | {"id": "1"}]]
            for shape in (
                b"null",
                b"[]",
                changed(more=1),
                *(changed(judgements=each) for each in lists),
                changed(judgements=[{"id": f"{each:08x}-0000-4000-8000-000000000000"} for each in range(1001)]),
            ):
                assert take(new, shape) == ["fileNoOutbox"]
            other = second | {"answers": {"helpful": 2}}
            assert take(new, changed(judgements=[first, other | {"answers": {}}])) == ["stored", "refused MISSING_AXIS"]
            assert take(new, saved) == ["known", "stored"]
            assert take(new, changed(judgements=[first, other])) == ["known", "refused ID_REUSED"]
            new.get_by_role("button", name="Take judgements from a file").press("Enter")
            new.locator("#dialog input").set_input_files(download.value.path())
            assert ada.tab.violations() == []
            new.locator("#dialog-ok").press("Enter")
            expect(new.locator('#dialog [data-outcome="known"]')).to_have_count(2)
            assert ada.tab.violations() == []
            new.keyboard.press("Escape")
            expect(new.locator("#progress")).to_have_text("3 of 8")
            assert new.evaluate(TEXTS) not in judged
            new.get_by_role("button", name="Close", exact=True).click()
            new.reload()
            expect(new.locator("#pair")).to_be_visible()
            expect(new.locator("#moved")).to_be_hidden()
        found = judgements(server, "moved")
        assert len({each["pair"] for each in found}) == len(found) == len(set(judged)) == 3
        assert [each for each in ada.tab.heard if "Failed to load resource" not in each] == []
        ada.close()


def test_a_letter_is_given_to_another_action_and_kept(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("letters", "ada", pairs=pair_lines(3))
    ada = annotate("ada", "letters")
    ada.begin()
    ada.page.keyboard.press("?")
    ada.page.get_by_role("button", name="D: change the key of Differences").click()
    ada.page.keyboard.press("f")
    expect(ada.page.get_by_role("button", name="D: change the key of Flag")).to_be_visible()
    assert ada.tab.violations() == []
    ada.page.keyboard.press("Escape")
    for _ in range(2):
        ada.page.keyboard.press("f")
        expect(ada.page.locator('[data-does="differences"]')).to_have_attribute("aria-pressed", "true")
        expect(ada.page.locator('[data-does="differences"]')).to_have_attribute("data-key", "F")
        ada.page.reload()
        ada.begin()


def test_after_long_work_a_break_is_proposed_once(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("tiring", "ada", pairs=pair_lines(4))
    ada = annotate("ada", "tiring")
    worked = "Object.keys(localStorage).filter(key => key.startsWith('tutti/annotation/time/tiring/'))[0]"
    ada.begin()
    ada.judge("1")
    ada.page.evaluate(f"localStorage.setItem({worked}, '2700000')")
    ada.page.reload()
    ada.judge("1")
    notice = ada.page.locator("#notice")
    expect(notice).to_have_text("You have worked for 45 minutes. Take a break: press P.")
    ada.judge("1")
    expect(notice).to_be_hidden()


def test_an_annotator_is_warned_reads_what_is_stored_and_withdraws(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("warned", "ada", "bob", pairs=pair_lines(2), warning="Some answers insult people.")
    ada, bob = annotate("ada", "warned"), annotate("bob", "warned")
    expect(ada.page.locator(".warning")).to_contain_text("Some answers insult people.")
    assert ada.tab.violations() == []
    ada.begin()
    ada.judge("1")
    ada.saved()
    ada.page.keyboard.press("m")
    assert ada.tab.violations() == []
    with ada.page.expect_download() as download:
        ada.page.get_by_role("link", name="Save my data").click()
    own = json.loads(Path(download.value.path()).read_text())
    assert [each["scores"] for each in own["judgements"]] == [{"helpful": -2}]
    assert own["judgements"][0].keys().isdisjoint({"kind", "flipped"})
    ada.page.get_by_role("button", name="Withdraw", exact=True).click()
    ada.page.locator("#dialog-ok").click()
    expect(ada.page.get_by_role("heading", name="You get no more pairs")).to_be_visible()

    bob.page.get_by_role("button", name="Leave this campaign").click()
    bob.page.locator("#dialog-ok").click()
    expect(bob.page.get_by_role("heading", name="You get no more pairs")).to_be_visible()
    with connect(server.data_dir) as client:
        listed = client.annotation.ListAnnotators(ListAnnotatorsRequest(campaign="campaigns/warned")).annotators
    assert {each.state for each in listed} == {ANNOTATOR_STATE_RETRACTED}


def test_who_is_done_is_shown_a_code_that_the_owner_knows(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("done", "ada", pairs=pair_lines(2))
    ada = annotate("ada", "done")
    ada.begin()
    for _ in range(2):
        ada.judge("1")
    ada.saved()
    shown = ada.page.get_by_text(re.compile(r"Your completion code: [A-Z2-9]{10}$"))
    expect(shown).to_be_visible(timeout=60_000)
    assert ada.tab.violations() == []
    with connect(server.data_dir) as client:
        [listed] = client.annotation.ListAnnotators(ListAnnotatorsRequest(campaign="campaigns/done")).annotators
    assert str(shown.text_content()).endswith(listed.completion_code)


def test_who_may_go_on_is_shown_the_code_too(server: CampaignServer, annotate: Callable[..., Annotator]) -> None:
    server.campaign("more", "ada", "bob", pairs=pair_lines(4), overlap=Overlap(least=1, most=2), judgements=4)
    ada = annotate("ada", "more")
    ada.begin()
    for _ in range(2):
        ada.judge("1")
    expect(ada.page.locator("#notice")).to_contain_text(re.compile(r"Your completion code: [A-Z2-9]{10}$"))
    expect(ada.page.locator("#pair")).to_be_visible()


def test_the_last_judgement_is_undone_before_the_campaign_closes(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("last", "ada", pairs=pair_lines(2))
    ada = annotate("ada", "last", width=NARROW)
    ada.begin()
    ada.judge("1")
    last = ada.judge("1")
    ada.saved()
    ada.page.get_by_role("button", name="Undo the last judgement").click()
    assert ada.judge("5") == last
    ada.saved()
    expect(ada.page.get_by_role("button", name="Undo the last judgement")).to_be_visible()
    assert ada.tab.violations() == []
    current = [json.loads(each["scores"])["helpful"] for each in judgements(server, "last") if each["current"]]
    assert sorted(current) == [-2, 2]
    with connect(server.data_dir) as client:
        client.annotation.CloseCampaign(CloseCampaignRequest(request_id="c", name="campaigns/last"))
    ada.page.reload()
    expect(ada.page.get_by_role("heading", name="The campaign has ended")).to_be_visible()
    ada.page.keyboard.press("z")
    expect(ada.page.locator("#notice")).to_have_text("The campaign has ended: judgements cannot be changed any more.")


def test_drafts_survive_a_reload_and_are_not_sent_by_themselves(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    axes = [Axis(name="helpful", rule="Which helps more?"), Axis(name="true", rule="Which is true?")]
    server.campaign("drafts", "ada", pairs=pair_lines(3), axes=axes)
    ada = annotate("ada", "drafts")

    def reload() -> str:
        ada.page.reload()
        ada.begin()
        return ada.shown()

    def words(key: str, text: str, confirm: str) -> None:
        ada.page.keyboard.press(key)
        ada.page.get_by_role("textbox").fill(text)
        ada.page.get_by_role("button", name=confirm).click()

    ada.begin()
    first = ada.shown()
    ada.page.keyboard.press("4")
    words("c", "A comment.", "Keep this text")
    words("e", "A better answer.", "Keep this text")
    ada.page.keyboard.press("e")
    ada.page.get_by_role("textbox").fill("A better answer that is not fin")
    assert reload() == first
    kept = "Your text about this pair is kept and not sent yet. Press E to finish it."
    expect(ada.page.locator("#notice")).to_have_text(kept)
    expect(ada.page.get_by_role("group", name="helpful").get_by_label("Right better")).to_be_checked()
    ada.page.keyboard.press("e")
    expect(ada.page.get_by_role("textbox")).to_have_value("A better answer that is not fin")
    ada.page.get_by_role("button", name="Cancel").click()
    assert reload() == first
    expect(ada.page.locator("#notice")).to_be_hidden()
    assert judgements(server, "drafts") == []
    ada.judge("5")
    ada.saved()
    (found,) = judgements(server, "drafts")
    assert json.loads(found["scores"]) == {"helpful": 1, "true": 2}
    (comment,) = stored(server, "SELECT * FROM comments WHERE campaign = ?", "drafts")
    assert "A comment." in comment["words"]
    (better,) = stored(server, "SELECT * FROM written_demonstrations WHERE campaign = ?", "drafts")
    assert json.loads(better["words"]) == "A better answer."


def test_an_undone_pair_is_shown_again_after_a_reload(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("undone", "ada", pairs=pair_lines(3))
    ada = annotate("ada", "undone")
    ada.begin()
    first, _ = ada.judge("1"), ada.judge("1")
    ada.saved()
    ada.page.keyboard.press("z")
    ada.page.keyboard.press("z")
    assert ada.shown() == first
    ada.page.reload()
    assert {ada.judge("5"), ada.judge("5")} >= {first}
    ada.saved()
    expect(ada.page.locator("#progress")).to_have_text("2 of 3")
    current = [json.loads(each["scores"])["helpful"] for each in judgements(server, "undone") if each["current"]]
    assert current == [2, 2]


def test_what_two_tabs_judge_offline_arrives_once_from_the_tab_that_is_left(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("apart", "ada", pairs=pair_lines(8))
    ada = annotate("ada", "apart")
    ada.begin()
    other = ada.tab.context.new_page()
    other.goto(f"{server.url}/annotation/apart")
    expect(other.locator("#panel-go")).to_be_visible()
    other.keyboard.press("Enter")
    expect(other.locator("#pair")).to_be_visible()
    ada.page.evaluate(KEPT, "/annotation/apart")
    ada.tab.context.set_offline(True)
    for page, second in ((ada.page, other), (other, ada.page)) * 2:
        before = page.evaluate(TEXTS)
        page.keyboard.press("1")
        for each in (page, second):
            each.wait_for_function(f"before => {TEXTS} !== before", arg=before)
    other.reload()
    expect(other.locator("#saved")).to_have_text("offline, 4 waiting")
    ada.page.close()
    ada.tab.context.set_offline(False)
    expect(other.locator("#saved")).to_have_text("saved", timeout=30_000)
    found = judgements(server, "apart")
    assert (len(found), len({each["pair"] for each in found})) == (4, 4)


def test_a_browser_that_refuses_to_store_says_so_and_sends_all_the_same(
    server: CampaignServer, annotate: Callable[..., Annotator]
) -> None:
    server.campaign("private-mode", "ada", pairs=pair_lines(3))
    ada = annotate("ada", "private-mode")
    ada.page.add_init_script("indexedDB.open = () => { throw new DOMException('refused', 'SecurityError') }")
    ada.page.reload()
    ada.begin()
    ada.tab.context.set_offline(True)
    ada.judge("1")
    expect(ada.page.locator("#notice")).to_contain_text("This browser cannot store judgements.")
    ada.tab.context.set_offline(False)
    ada.saved()
    assert len(judgements(server, "private-mode")) == 1
