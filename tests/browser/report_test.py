"""The report in a real browser, as a file and as a page: quiet, alone, readable on a small screen, without a mouse.

Here the pages that it tells of are hostile; the reports of real runs are read where those runs are (tests/e2e).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import chromium
from tests.browser.login import log_in
from tests.browser.pages_test import Tab, assert_fits
from tests.browser.reader import NARROW, WIDE, Reader, reader
from tests.web.hosted import BUILDS, Hosted, hosted
from tutti.backbone.ours import OwnFiles
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host, Service
from tutti.pipeline.pages.views import ReportView
from tutti.report.example_test import facts
from tutti.report.page import body
from tutti.report.writing import place_of, write
from tutti.web.pages import Get, Page, Site, Visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module", params=[NARROW, WIDE], ids=str)
def read(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    place = place_of(tmp_path_factory.mktemp("report"), "runs/r")
    write(facts(), place, OwnFiles())
    with reader(browser, place, width=request.param) as found:
        yield found


def test_it_says_nothing_to_the_console_and_asks_for_nothing_but_itself(read: Reader) -> None:
    read.assert_alone()


def test_it_fits_the_screen_and_its_style_is_let_in(read: Reader) -> None:
    read.assert_fits()
    assert read.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"


def test_the_keyboard_reaches_everything_that_can_be_used(read: Reader) -> None:
    assert read.assert_usable_by_keyboard() > 15


def test_a_link_at_the_top_leads_to_its_part(read: Reader) -> None:
    read.page.get_by_role("link", name="Checkpoints").focus()
    read.page.keyboard.press("Enter")
    assert read.page.url.endswith("#checkpoints")
    assert read.page.locator("#checkpoints h2").is_visible()


def build_example(host: Host) -> Service:
    """A service with the page of a report, of the same facts."""

    def report(visit: Visit) -> Page:
        return Page("report.html", "Report", ReportView("runs/r", "a run", facts().summary, body(facts())))

    site = Site("pipeline", "tutti.pipeline.pages", [Get("/runs/{id}/report", report, frozenset({Role.OPERATOR}))])
    return Service(name="pipeline", resources=[], pages=site)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform"), builds={**BUILDS, "pipeline": build_example}) as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(NARROW, "dark"), (WIDE, "light")])
def test_a_page_with_a_report_is_quiet_accessible_and_fits(
    browser: Browser, served: Hosted, width: int, scheme: str
) -> None:
    tab = Tab(browser, width, scheme)
    try:
        log_in(tab.page, f"{served.url}/login/{served.link()}?next=/runs/r/report")
        tab.page.wait_for_url(f"{served.url}/runs/r/report")
        assert tab.page.locator("section").count() > 8
        assert tab.page.locator("figure svg").count() >= 3
        assert_fits(tab, served)
        tab.page.get_by_role("link", name="Samples").click()
        assert tab.page.url.endswith("#samples")
    finally:
        tab.context.close()


def test_a_page_that_is_wrong_is_found_out(browser: Browser, tmp_path: Path) -> None:
    place = tmp_path / "wrong.html"
    words = "<p>Some words.</p>" * 21
    place.write_text(
        f"<!doctype html>{words}<p style='font-size: 11px'>Small.</p><img src='picture.png'>"
        "<p style='width: 400px'>Wide."
        "<svg viewBox='0 0 100 10' width='50'><text font-size='20'>Drawn.</text></svg>"
        "<div style='overflow: auto; width: 50px'><p style='width: 90px'>Cut off.</div>"
        "<a href='#a' style='outline: none'>A</a><a href='#b' tabindex='-1'>B</a><script>nothing()</script>"
    )
    with reader(browser, place) as found:
        for check in (found.assert_alone, found.assert_fits, found.assert_usable_by_keyboard):
            with pytest.raises(AssertionError):
                check()
        assert any("picture.png" in each for each in found.heard)
        assert any("nothing is not defined" in each for each in found.heard)
