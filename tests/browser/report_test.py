"""The report in a real browser: quiet, alone, readable on a small screen and without a mouse."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tutti.cli.report.example_test import facts
from tutti.cli.report.writing import place_of, write

NARROW = 360
FOCUSABLE = "a, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = place_of(tmp_path_factory.mktemp("report"), "runs/r")
    write(facts(), found)
    return found


@pytest.fixture(scope="module")
def seen() -> list[str]:
    """What the page said to the console, asked for, or did wrong."""
    return []


@pytest.fixture(scope="module")
def page(browser: Browser, place: Path, seen: list[str]) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": NARROW, "height": 640}, color_scheme="dark")
    opened.on("console", lambda message: seen.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: seen.append(str(error)))
    opened.on("dialog", lambda dialog: seen.append(f"dialog: {dialog.message}"))
    opened.on("request", lambda request: seen.append(request.url))
    opened.goto(place.as_uri())
    yield opened
    opened.close()


def test_it_says_nothing_to_the_console_and_asks_for_nothing_but_itself(
    page: Page, place: Path, seen: list[str]
) -> None:
    page.wait_for_load_state("networkidle")
    assert seen == [place.as_uri()]


def test_it_fits_a_small_screen_and_its_style_is_let_in(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('td, p, li')].map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 12


def test_the_keyboard_reaches_everything_that_can_be_used(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    wanted = page.evaluate(f"document.querySelectorAll({FOCUSABLE!r}).length")
    page.evaluate("document.body.focus()")
    reached = set()
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(f"[...document.querySelectorAll({FOCUSABLE!r})].indexOf(document.activeElement)"))
    assert reached == set(range(wanted))
    assert wanted > 15


def test_a_link_at_the_top_leads_to_its_part(page: Page) -> None:
    page.get_by_role("link", name="Checkpoints").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#checkpoints")
    assert page.locator("#checkpoints h2").is_visible()
