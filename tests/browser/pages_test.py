"""The pages of runs in a real browser: quiet, alone, live, accessible, usable on a small screen and by keyboard."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import chromium
from tests.browser.login import log_in
from tests.browser.reader import CONTROLS, CUT_OFF, FOCUS, LETTERS, NARROW, SMALLEST_PIXELS, WIDE
from tests.web.hosted import BUILDS, Hosted, hosted
from tutti.cli.loginfiles import redirecting
from tutti.sampling.experiences_test import experience
from tutti.sampling.service import build as build_sampling

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform"), builds={**BUILDS, "sampling": build_sampling}) as found:
        found.plant_run("first")
        found.plant_work()
        for iteration in range(3):
            found.report("j", experience(iteration))
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Tab:
    """A page of a browser of its own; `heard`: what it said to the console, `asked`: the URLs that it asked for."""

    def __init__(self, browser: Browser, width: int, scheme: Any, *, script: bool = True) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 640},
            color_scheme=scheme,
            reduced_motion="reduce",
            java_script_enabled=script,
        )
        self.page: Page = self.context.new_page()
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.heard.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def violations(self) -> list[str]:
        """What axe-core finds, evaluated beside the page, whose policy lets no other script in."""
        self.page.evaluate(f"{AXE};0")
        found = self.page.evaluate("axe.run()")
        assert len(found["passes"]) > 15
        return [f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found["violations"]]

    def tab_stops(self) -> list[Any]:
        """Return each control, reached by the Tab key in turn, while the page has the same number of them."""
        count, stops = -1, list[Any]()
        while count != (count := self.page.evaluate("all => document.querySelectorAll(all).length", CONTROLS)):
            self.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
            stops.clear()
            for _ in range(count):
                self.page.keyboard.press("Tab")
                stops.append(self.page.evaluate(FOCUS, CONTROLS))
        return stops


@pytest.fixture(scope="module", params=[(NARROW, "dark"), (WIDE, "light")], ids=["narrow-dark", "wide-light"])
def tab(request: pytest.FixtureRequest, browser: Browser, served: Hosted) -> Iterator[Tab]:
    """Logged in by a link."""
    found = Tab(browser, *request.param)
    log_in(found.page, f"{served.url}/login/{served.link()}?next=/runs")
    found.page.wait_for_url(f"{served.url}/runs")
    yield found
    found.context.close()


@pytest.mark.parametrize("path", ["/runs", "/runs/planted-1", "/status", "/experiences/j/0", "/experiences/j/0/1"])
def test_a_page_is_quiet_accessible_and_fits(tab: Tab, served: Hosted, path: str) -> None:
    tab.page.goto(f"{served.url}{path}")
    expect(tab.page.locator("#live")).to_have_text("· live")
    assert_fits(tab, served)


def assert_fits(tab: Tab, served: Hosted) -> None:
    """The page that is shown is quiet, asks no other host, is accessible, fits, and is usable by keyboard."""
    assert tab.heard == []
    assert [each for each in tab.asked if not each.startswith(f"{served.url}/")] == []
    tab.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert tab.violations() == []
    assert tab.page.evaluate("document.documentElement.scrollWidth") == tab.page.viewport_size["width"]  # type: ignore[index]
    letters = tab.page.evaluate(LETTERS)
    assert len(letters) > 5
    assert [each for each in letters if each["pixels"] < SMALLEST_PIXELS] == []
    assert tab.page.evaluate(CUT_OFF) == []
    stops = tab.tab_stops()
    assert len(stops) >= 4
    assert [each["at"] for each in stops] == list(range(len(stops)))
    assert [each for each in stops if not each["there"] or each["ring"] < 2] == []


def test_a_page_shows_a_change_without_being_loaded_again(tab: Tab, served: Hosted) -> None:
    tab.page.goto(f"{served.url}/runs")
    expect(tab.page.locator("#live")).to_have_text("· live")
    tab.page.evaluate("globalThis.same = true")
    tab.page.locator("tbody a").last.focus()
    focused = tab.page.evaluate("document.activeElement.getAttribute('href')")
    title = f"planted while somebody looks on at {tab.page.viewport_size}"
    served.plant_run(title)
    expect(tab.page.get_by_role("link", name=title)).to_be_visible()
    assert tab.page.evaluate("globalThis.same")
    assert tab.page.evaluate("document.activeElement.getAttribute('href')") == focused
    assert tab.heard == []


def test_the_policy_stops_inline_script_style_and_other_hosts(tab: Tab, served: Hosted) -> None:
    """The control of the quiet pages: what they do not do would be refused and heard."""
    tab.page.goto(f"{served.url}/runs")
    refused = tab.page.evaluate(
        """async () => {
            const refused = [];
            const attempt = async (name, work) => { try { await work(); } catch { refused.push(name); } };
            await attempt('html', () => { document.body.innerHTML = '<b>no</b>'; });
            await attempt('policy', () => trustedTypes.createPolicy('any', {}));
            await attempt('host', () => fetch('http://elsewhere.example/'));
            return refused;
        }"""
    )
    assert refused == ["html", "policy", "host"]
    tab.page.evaluate(
        "const s = document.createElement('b'); s.setAttribute('style', 'color: red'); document.body.append(s)"
    )
    assert any("Content Security Policy" in each for each in tab.heard)
    tab.heard.clear()


def test_everything_can_be_read_without_script(
    browser: Browser, served: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tab = Tab(browser, WIDE, "light", script=False)
    with redirecting(f"{served.url}/login/{served.link()}?next=/runs") as file:  # as `tutti open` does it
        tab.page.goto(file.as_uri())
        tab.page.get_by_role("button", name="Log in as").click()
    tab.page.get_by_role("link", name="first").click()
    expect(tab.page.get_by_role("heading", name="first")).to_be_visible()
    assert tab.page.locator("figure svg:visible").count() == 3
    tab.page.get_by_role("button", name="Log out").click()
    expect(tab.page.get_by_role("heading", name="You are logged out")).to_be_visible()
    tab.page.goto(f"{served.url}/runs")
    expect(tab.page.get_by_role("heading", name="You are not logged in")).to_be_visible()
    tab.context.close()


def test_a_refusal_is_an_accessible_page(browser: Browser, served: Hosted) -> None:
    tab = Tab(browser, NARROW, "light")
    tab.page.goto(f"{served.url}/runs")
    expect(tab.page.get_by_role("heading", name="You are not logged in")).to_be_visible()
    assert [each for each in tab.violations() if "landmark" not in each] == []
    tab.context.close()
