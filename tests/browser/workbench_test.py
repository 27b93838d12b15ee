"""A list of a thousand runs and four runs side by side in a real browser: accessible, on a phone and by keyboard."""

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from playwright.sync_api import Browser, expect

from tests.browser.chromium import chromium
from tests.browser.login import log_in
from tests.browser.pages_test import Tab, assert_fits
from tests.browser.reader import NARROW, WIDE
from tests.web.hosted import STARTED, Hosted, hosted
from tutti.contracts.pipeline.v1 import Run, UpdateRunRequest
from tutti.pipeline.pages.workbench import ROWS

RUNS = 1000
LABELS = UpdateRunRequest(
    name="runs/planted-1",
    update_mask=FieldMask(paths=["title", "note", "tags"]),
    title="<b>" + "long" * 40,
    note=f"<script>alert(1)</script> {'x' * 500}\n" + "שלום\n" * 9,
    tags=["long", *(f"{at}{'x' * 38}" for at in range(9))],
)
SELECTED = "/labels?run=planted-1&run=planted-2"
FOUR = "/compare?" + "&".join(f"run=planted-{at}" for at in range(1, 5))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform")) as found:
        found.plant_sweep(RUNS - 4)
        for at in range(4):
            found.plant_run(f"with a curve {at}")
        with found.client() as client:
            client.pipeline.UpdateRun(LABELS)
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module", params=[(NARROW, "dark"), (WIDE, "light")], ids=["narrow-dark", "wide-light"])
def tab(request: pytest.FixtureRequest, browser: Browser, served: Hosted) -> Iterator[Tab]:
    """Logged in by a link."""
    found = Tab(browser, *request.param)
    log_in(found.page, f"{served.url}/login/{served.link()}?next=/runs")
    found.page.wait_for_url(f"{served.url}/runs")
    yield found
    found.context.close()


@pytest.mark.parametrize(
    "path",
    ["/runs?sort=bits_per_byte", FOUR, "/runs?tag=long", "/runs/planted-1", "/labels?run=planted-1", SELECTED],
)
def test_a_page_is_quiet_accessible_and_fits(tab: Tab, served: Hosted, path: str) -> None:
    tab.page.goto(f"{served.url}{path}")
    assert_fits(tab, served)


def test_runs_are_sorted_selected_and_compared_by_keyboard(tab: Tab, served: Hosted) -> None:
    page = tab.page
    page.goto(f"{served.url}/runs")
    expect(page.locator(".paging")).to_contain_text(f"{ROWS} of {RUNS:,} runs")
    page.get_by_role("button", name="Bits per byte").focus()
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Bits per byte")
    for row in (0, 1):
        page.get_by_role("checkbox").nth(row).focus()
        page.keyboard.press("Space")
    names = [str(page.get_by_role("checkbox").nth(row).get_attribute("value")) for row in (0, 1)]
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 runs")
    assert [value for name, value in parse_qsl(urlsplit(page.url).query) if name == "run"] == names
    assert tab.heard == []


@pytest.mark.parametrize("script", [True, False])
def test_selected_runs_stay_selected_on_other_pages_and_in_other_orders(
    browser: Browser, served: Hosted, *, script: bool
) -> None:
    tab = Tab(browser, WIDE, "light", script=script)
    page = tab.page
    log_in(page, f"{served.url}/login/{served.link()}?next=/runs")
    page.wait_for_url(f"{served.url}/runs")
    page.goto(f"{served.url}/runs?q=sweep")
    first = page.get_by_role("checkbox").first
    name = str(first.get_attribute("value"))
    first.check()
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".paging")).to_contain_text(f"{2 * ROWS} of")
    expect(page.get_by_text("not on this page")).to_contain_text(name)
    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Previous").click()
    expect(page.locator(f'input[type=checkbox][value="{name}"]')).to_be_checked()
    page.get_by_role("button", name="Loss").click()
    expect(page.locator("th[aria-sort]")).to_contain_text("Loss")
    page.get_by_role("button", name="Parameters").click()
    expect(page.locator("th[aria-sort]")).to_contain_text("Parameters")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 runs")
    page.go_back()
    page.get_by_role("link", name="Select none").click()
    expect(page.get_by_text("not on this page")).to_have_count(0)
    expect(page.locator("input:checked")).to_have_count(0)
    tab.context.close()


def test_a_selected_run_stays_selected_where_a_newer_one_moves_it(tab: Tab, served: Hosted) -> None:
    page = tab.page
    page.goto(f"{served.url}/runs")
    expect(page.locator("#live")).to_have_text("· live")
    second = page.get_by_role("checkbox").nth(1)
    name = str(second.get_attribute("value"))
    second.check()
    newer = Run(name=f"runs/sweep-{page.viewport_size['width'] % 900:05}")  # type: ignore[index]
    newer.started_at.FromSeconds(STARTED + 10_000 + page.viewport_size["width"])  # type: ignore[index]
    served.plant("pipeline", newer)
    expect(page.get_by_role("checkbox").first).to_have_attribute("value", newer.name[5:], timeout=30_000)
    expect(page.get_by_role("checkbox").nth(2)).to_have_attribute("value", name)
    checked = page.locator("input:checked")
    expect(checked).to_have_count(1)
    expect(checked).to_have_attribute("value", name)
    assert tab.heard == []


def test_selected_runs_are_tagged_archived_and_found_again_by_keyboard(tab: Tab, served: Hosted) -> None:
    page, tag = tab.page, f"tab-{tab.page.viewport_size['width']}"  # type: ignore[index]

    def select_two() -> None:
        for row in (0, 1):
            page.get_by_role("checkbox").nth(row).focus()
            page.keyboard.press("Space")
        page.get_by_role("button", name="Tag or archive them").focus()
        page.keyboard.press("Enter")

    page.goto(f"{served.url}/runs")
    select_two()
    page.get_by_label("Tags to add").focus()
    page.keyboard.type(tag)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=tag).first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("checkbox")).to_have_count(2)
    select_two()
    page.get_by_role("button", name="Archive 2 runs").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 archived runs are not listed")).to_be_visible()
    page.goto(f"{served.url}/runs?tag={tag}&archived=only")
    select_two()
    page.get_by_role("button", name="Unarchive 2 of them").click()
    expect(page.locator(".paging")).to_contain_text(f"{ROWS} of {RUNS:,} runs")
    assert tab.heard == []


def test_a_search_without_a_match_leads_back_to_all_runs(tab: Tab, served: Hosted) -> None:
    tab.page.goto(f"{served.url}/runs")
    tab.page.get_by_role("searchbox").fill("nothing like it")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("link", name="Show all runs").click()
    expect(tab.page.get_by_role("checkbox")).to_have_count(ROWS)
