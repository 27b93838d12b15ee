"""What the chat page keeps of a conversation and says about it in a real browser, by mouse, key and the Back button."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat_test import ENDED, Reader, exported, silent_replicas
from tests.browser.chromium import chromium
from tests.browser.reader import CUT_OFF, NARROW
from tests.chat.past_test import CROWD, published, released
from tests.chat.platforms import CHAT_BUILDS
from tests.chat.talks_test import World
from tests.talks import demonstrations
from tests.web.hosted import hosted
from tutti.contracts.common.v1 import Training
from tutti.contracts.scheduler.v1 import Job, JobSpec
from tutti.sampling.service import build as build_sampling

TOOLS, SAID = "article.answer .tools", "article.person .raw"
ROOM_PIXELS = 8


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), builds={**CHAT_BUILDS, "sampling": build_sampling}) as served:
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


def answered_again(ada: Reader) -> None:
    """Have the first message answered once more."""
    ada.page.get_by_role("button", name="Again").first.click()
    expect(ada.page.locator(TOOLS).first).to_contain_text("2 of 2")
    expect(ada.page.locator(ENDED)).to_have_count(1)


def test_the_chosen_version_comes_back_until_a_message_is_sent_later(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.say("first", ended=1)
    answered_again(ada)
    ada.page.get_by_role("button", name="Version before").click()
    expect(ada.page.locator(TOOLS)).to_contain_text("1 of 2")
    ada.page.reload()
    expect(ada.page.locator(TOOLS)).to_contain_text("1 of 2")
    ada.page.locator("#new").click()
    expect(ada.page.locator("#empty")).to_be_visible()
    ada.page.go_back()
    expect(ada.page.locator(TOOLS)).to_contain_text("1 of 2")
    device = ada.world.ada
    device.answered(device.say("second", ada.stored))  # behind the version that is not shown here
    ada.page.reload()
    expect(ada.page.locator(SAID)).to_have_text(["first", "second"])
    expect(ada.page.locator(TOOLS).first).to_contain_text("2 of 2")
    ada.quiet()


def test_an_answer_that_will_be_the_same_is_not_made_unasked(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.page.locator("#settings-open").click()
    ada.page.locator("#temperature").fill("0")
    ada.say("first", ended=1)
    ada.page.get_by_role("button", name="Again").click()
    expect(ada.page.locator("#notice")).to_contain_text("At temperature 0")
    assert len(ada.stored["messages"]) == 2
    assert ada.tab.violations() == []
    ada.page.get_by_role("button", name="Ask all the same").press("Enter")
    expect(ada.page.locator(TOOLS)).to_contain_text("2 of 2")
    expect(ada.page.locator(ENDED)).to_have_count(1)
    expect(ada.page.locator("#notice")).to_be_hidden()
    assert len({each["text"] for each in ada.stored["messages"] if each["role"] == "assistant"}) == 1
    ada.page.locator("#temperature").fill("1")
    ada.page.get_by_role("button", name="Again").click()
    expect(ada.page.locator(TOOLS)).to_contain_text("3 of 3")
    ada.quiet()


def test_the_help_of_the_keys_closes_by_key_and_with_its_conversation(reading: Callable[..., Reader]) -> None:
    ada = reading()
    opener, keys = ada.page.locator("#keys-open"), ada.page.locator("#keys")
    opener.press("Enter")
    expect(keys).to_be_visible()
    ada.page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    expect(opener).to_have_attribute("aria-expanded", "false")
    expect(opener).to_be_focused()
    opener.press("Enter")
    expect(keys).to_be_visible()
    ada.page.locator("#new").click()
    expect(keys).to_be_hidden()
    ada.quiet()


def test_the_status_says_how_the_answer_ended_and_belongs_to_its_conversation(reading: Callable[..., Reader]) -> None:
    """On a busy machine, the answer can fail before it is stopped."""
    ada, status = reading(), "#status"
    ada.say("first", ended=1)
    expect(ada.page.locator(status)).to_have_text("The answer has ended.")
    with silent_replicas():
        ada.say("second")
        expect(ada.page.locator("article.answer")).to_have_count(2)
        ada.page.locator("#stop").click()
        expect(ada.page.locator(ENDED)).to_have_count(2)
    ends = {"stopped": "The answer was stopped.", "failed": "The answer ended with an error."}
    expect(ada.page.locator(status)).to_have_text(ends[ada.stored["messages"][-1]["state"]])
    ada.page.locator("#new").click()
    expect(ada.page.locator("#empty")).to_be_visible()
    expect(ada.page.locator(status)).to_have_text("")


@pytest.mark.parametrize("script", ["tell me of the old mill ", "関係のない長い題名の話"])
def test_titles_that_a_screen_cuts_to_the_same_text_have_times(reading: Callable[..., Reader], script: str) -> None:
    ada = reading()
    device = ada.world.ada
    for end in ("in the wood", "by the sea"):
        device.answered(device.say(f"{script * 2}{end}", max_tokens=1))
    device.answered(device.say("some other matter", max_tokens=1))
    ada.page.reload()
    links = ada.page.locator("#conversations a")
    expect(links.filter(has_text=script.strip()).locator("small")).to_have_count(2)
    expect(links.filter(has_text="other matter").first).to_be_visible()
    assert ada.tab.violations() == []
    ada.page.set_viewport_size({"width": NARROW, "height": 640})
    ada.page.locator("#menu").click()
    expect(links.filter(has_text=script.strip()).locator("small").first).to_be_visible()
    assert ada.tab.violations() == []
    assert ada.page.evaluate("document.documentElement.scrollWidth") == NARROW


def test_messages_are_counted_alike_in_the_page_and_in_exports(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.say("first", ended=1)
    answered_again(ada)
    ada.say("second", ended=2)
    stored, shown = len(ada.stored["messages"]), ada.page.locator("#turns article").count()
    assert (stored, shown) == (5, 4)
    choices = {
        f"What is shown: {shown} of {stored} messages": [shown, stored],
        f"Everything: {stored} messages": [stored],
    }
    for choice, numbers in choices.items():
        text = exported(ada, choice)
        about = text.split("\n\n")[1]
        assert [int(each) for each in re.findall(r"\d+", about)] == numbers
        assert len(re.findall(r"^\*\*\d+\. ", text, re.MULTILINE)) == numbers[0]
        assert "A message is" in about


def test_the_back_button_closes_the_list_on_a_phone(reading: Callable[..., Reader]) -> None:
    ada = reading(width=NARROW)
    ada.say("a first one", ended=1)
    first = ada.page.url
    ada.world.ada.answered(ada.world.ada.say("another one"))
    menu, shelf = ada.page.locator("#menu"), ada.page.locator("#shelf")
    menu.click()
    expect(shelf).to_be_visible()
    ada.page.go_back()
    expect(shelf).to_be_hidden()
    expect(menu).to_be_focused()
    assert ada.page.url == first
    expect(ada.page.locator(SAID)).to_have_text("a first one")
    ada.page.go_forward()
    expect(shelf).to_be_visible()
    ada.page.keyboard.press("Escape")
    expect(shelf).to_be_hidden()
    menu.press("Enter")
    ada.page.wait_for_function("history.state?.shelf")
    ada.page.get_by_role("searchbox").fill("another one")
    ada.page.locator("#conversations a", has_text="another one").click()
    expect(ada.page.locator(SAID)).to_have_text("another one")
    expect(shelf).to_be_hidden()
    ada.page.go_back()
    expect(ada.page.locator(SAID)).to_have_text("a first one")
    expect(shelf).to_be_hidden()
    ada.page.go_back()
    expect(ada.page.locator("#empty")).to_be_visible()
    ada.quiet()


def test_the_empty_page_names_the_subjects_of_a_release_with_room_around(
    reading: Callable[..., Reader], world: World
) -> None:
    conversations = published(world.served, demonstrations())
    spec = JobSpec(steps=40, dataset_manifest_key=conversations, typed_training=Training(program="sft"))
    world.served.plant("scheduler", Job(name="jobs/chat", spec=spec))
    ada = reading(width=NARROW)
    expect(ada.page.locator("#empty-past")).to_contain_text("60 conversations")
    expect(ada.page.locator("#empty-subjects")).to_be_hidden()
    released(world, CROWD)
    ada.page.reload()
    expect(ada.page.locator("#empty-subjects")).to_have_text("You can ask it about cats and numbers.")
    ada.page.set_viewport_size({"width": NARROW, "height": 560})
    composer = ada.box("#composer")
    assert composer["y"] < ada.box("#empty details")["y"], "the introduction goes on below the field"
    above = [composer["x"] + composer["width"] / 3, composer["y"] - ROOM_PIXELS]
    assert ada.page.evaluate("([x, y]) => Boolean(document.elementFromPoint(x, y).closest('#composer'))", above)
    ada.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    last, composer = ada.box("#empty details"), ada.box("#composer")
    assert last["y"] + last["height"] + ROOM_PIXELS <= composer["y"]
    assert ada.tab.violations() == []
    assert ada.page.evaluate("document.documentElement.scrollWidth") == NARROW
    assert [each for each in ada.page.evaluate(CUT_OFF) if 'class="unseen"' not in each] == []
    ada.quiet()
