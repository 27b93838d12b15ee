"""The drawer "Why this answer" of the chat page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_test import ENDED, Reader
from tests.browser.chromium import chromium
from tests.browser.reader import CUT_OFF, NARROW
from tests.chat.platforms import CHAT_BUILDS
from tests.chat.talks_test import World
from tests.web.hosted import hosted
from tutti.contracts.chat.v1 import ListReportsRequest

TECHNICAL = re.compile(r"\b[a-z]+s/[0-9a-z-]+|\btutti \w+|\bseed\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), builds=CHAT_BUILDS) as served:
        yield World(served)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def reading(browser: Browser, world: World) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(**look: Any) -> Reader:
        made.append(Reader(browser, world, **look))
        made[-1].limit("8")
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_page_shows_while_other_services_hang_and_names_them(reading: Callable[..., Reader], world: World) -> None:
    with world.served.hung("scheduler", "committer", "evaluation", "lineage"):
        ada = reading()
        expect(ada.page.locator("#empty-past")).to_contain_text("scheduler did not answer")
        expect(ada.page.locator("#send")).to_be_enabled()
        ada.say("a b c", ended=1)
        ada.page.get_by_role("button", name="Why").press("Enter")
        expect(ada.page.locator("#why")).to_contain_text("lineage did not answer")
        ada.page.get_by_role("button", name="Compute it again").press("Enter")
        expect(ada.page.locator("#why [role=status]")).to_contain_text("Identical")
    assert [each for each in ada.tab.heard if "503" not in each] == []


def test_a_wrong_refusal_is_reported_in_the_language_of_the_refusal(reading: Callable[..., Reader]) -> None:
    ada = reading(width=NARROW)
    ada.say("nightfall ist das Wort", ended=1)
    button = ada.page.get_by_role("button", name="melden")
    expect(button).to_have_attribute("lang", "de")
    assert ada.tab.violations() == []
    button.press("Enter")
    expect(ada.page.get_by_role("textbox", name="Was ist daran falsch?")).to_be_focused()
    ada.page.keyboard.insert_text("x" * 600)
    assert ada.tab.violations() == []
    assert ada.page.evaluate("document.documentElement.scrollWidth") == NARROW
    ada.page.get_by_role("button", name="Melden", exact=True).click()
    expect(ada.page.locator("article.answer")).to_contain_text("Es wurde gemeldet.")
    ada.page.reload()
    ada.page.get_by_role("button", name="melden").click()
    ada.page.locator("#dialog-ok").click()
    expect(ada.page.locator("article.answer")).to_contain_text("Sie haben es schon gemeldet.")
    with ada.world.served.client() as operator:
        [report] = operator.chat.ListReports(ListReportsRequest()).reports
    assert (report.words, report.decision.rule) == ("x" * 500, "codename")
    ada.quiet()


def test_an_answer_is_continued_with_another_token_by_keyboard_alone(reading: Callable[..., Reader]) -> None:
    ada = reading(width=NARROW)
    ada.say("a b c", ended=1)
    ada.say("d", ended=2)
    before = ada.stored["messages"][1]
    ada.page.get_by_role("button", name="Why").first.press("Enter")
    expect(ada.page.locator("#why")).to_be_focused()
    expect(ada.page.get_by_role("group", name="The answer")).to_be_in_viewport()
    ada.page.go_back()
    expect(ada.page.locator("#why")).to_be_hidden()
    expect(ada.page.get_by_role("button", name="Why").first).to_be_focused()
    ada.page.go_forward()
    expect(ada.page.locator("#why")).to_be_focused()
    assert TECHNICAL.findall(ada.page.locator("#why").inner_text()) == []
    ada.page.get_by_text("For engineers").last.press("Enter")
    assert TECHNICAL.findall(ada.page.locator("#why").inner_text())
    ada.page.get_by_text("For engineers").last.press("Escape")
    ada.page.wait_for_function("() => !history.state")
    ada.page.reload()
    expect(ada.page.locator(ENDED)).to_have_count(2)
    expect(ada.page.locator("#why")).to_be_hidden()
    ada.page.get_by_role("button", name="Why").first.press("Enter")
    expect(ada.page.locator("#why")).to_be_focused()
    ada.page.keyboard.press("t")
    tokens = ada.page.get_by_role("toolbar", name="Tokens of the answer").get_by_role("button")
    expect(tokens.first).to_be_focused()
    expect(ada.page.locator(".explained")).to_have_attribute("data-message", before["id"])
    own = ada.world.ada.get(f"tokens/{before['answer'].removeprefix('answers/')}").json["tokens"]
    count = tokens.count()
    assert count == len(own)
    assert tokens.evaluate_all("all => all.filter(each => each.tabIndex === 0).length") == 1, "one stop of the Tab key"
    ada.page.keyboard.press("End")
    expect(tokens.last).to_be_focused()
    ada.page.keyboard.press("Home")
    ada.page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(tokens.nth(1)).to_have_accessible_name(re.compile(f"^Token 2 of {count}: "))
    ada.page.keyboard.press("Enter")
    likeliest = ada.page.locator(".likeliest li")
    expect(likeliest.last).to_be_in_viewport(ratio=1)
    expect(tokens.nth(1)).to_have_attribute("aria-pressed", "true")
    assert ada.tab.violations() == []
    assert ada.page.evaluate("document.documentElement.scrollWidth") == NARROW
    assert [each for each in ada.page.evaluate(CUT_OFF) if 'class="unseen"' not in each] == []
    expect(likeliest.get_by_text("written")).to_have_count(1)
    ada.page.keyboard.press("Tab")
    expect(ada.page.locator(".likeliest button").first).to_be_focused()
    expect(ada.page.locator(".likeliest button").first).to_have_accessible_name(re.compile("^Continue with .+, prob"))
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator("article.answer .tools").first).to_contain_text("2 of 2")
    expect(ada.page.locator(ENDED)).to_have_count(1)
    expect(ada.page.locator("#why")).to_be_hidden()
    expect(ada.page.locator("article.answer")).to_be_focused()
    expect(ada.page.locator("article.answer .continued")).to_contain_text("token 2 was chosen")
    expect(ada.page.locator(".gone")).to_contain_text("2 later messages are kept")
    branch = ada.stored["messages"][-1]
    assert branch["parent"] == before["parent"]
    assert branch["text"].startswith(own[0]["text"])
    ada.page.keyboard.press("t")
    expect(ada.page.locator("#why")).to_contain_text("token 2 was chosen by hand")
    expect(tokens.nth(1)).to_have_accessible_name(re.compile("chosen by hand"))
    ada.quiet()
