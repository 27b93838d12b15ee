"""Who reads a page that lies on the disk, in a real browser: on a screen of some width, and without a mouse.

Promises: each `assert_` fails with what was seen and where.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page

from tests.browser.chromium import chromium

NARROW, WIDE = 360, 1280
SMALLEST_PIXELS = 12
CONTROLS = (
    "a[href], summary, button, input:not([type=hidden]), select, textarea, iframe, audio, video, "
    "[tabindex]:not([tabindex='-1']), [contenteditable]"
)

# Of each element with a text of its own that is shown: how large its letters are on the screen, drawn ones too.
LETTERS = """[...document.body.querySelectorAll('*')]
    .filter(each => [...each.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim()))
    .filter(each => each.getClientRects().length && !each.closest('title, desc, style'))
    .map(each => ({
        text: each.textContent.trim().slice(0, 40),
        pixels: parseFloat(getComputedStyle(each).fontSize) * (each.ownerSVGElement ? each.getScreenCTM().a : 1),
    }))"""
FOCUS = """controls => {
    const each = document.activeElement, style = getComputedStyle(each), box = each.getBoundingClientRect();
    return {
        at: [...document.querySelectorAll(controls)].indexOf(each),
        what: each.outerHTML.slice(0, 80),
        ring: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
        there: box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
    };
}"""
# Whoever has no mouse moves what is cut off with the arrows, once it has the focus.
CUT_OFF = """[...document.querySelectorAll('body *')]
    .filter(each => each.scrollWidth > each.clientWidth + 1)
    .filter(each => ['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(each).overflowX))
    .filter(each => each.tabIndex < 0).map(each => each.outerHTML.slice(0, 80))"""


@dataclass
class Reader:
    """A page on a screen; `heard`: what it asked for, said to the console, or did wrong, in order."""

    place: Path
    width: int
    page: Page
    heard: list[str] = field(default_factory=list)

    def assert_alone(self) -> None:
        """It asks for nothing but itself, and has nothing to complain of."""
        self.page.wait_for_load_state("networkidle")
        assert self.heard == [self.place.as_uri()]

    def assert_fits(self) -> None:
        """The page never moves sideways, letters are large enough, and what is cut off can be moved by keyboard."""
        self._open()
        assert self.page.evaluate("document.documentElement.scrollWidth") == self.width
        letters = self.page.evaluate(LETTERS)
        assert len(letters) > 20
        assert [each for each in letters if each["pixels"] < SMALLEST_PIXELS] == []
        assert self.page.evaluate(CUT_OFF) == []

    def assert_usable_by_keyboard(self) -> int:
        """Tab reaches every control, each is seen then and has a ring around it. How many there are."""
        self._open()
        wanted = self.page.evaluate("controls => document.querySelectorAll(controls).length", CONTROLS)
        self.page.evaluate("scrollTo(0, 0)")
        reached = [self._tab() for _ in range(wanted)]
        assert [each for each in reached if not each["there"] or each["ring"] < 2] == []
        assert [each["at"] for each in reached] == list(range(wanted))
        return int(wanted)

    def _open(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")

    def _tab(self) -> Any:
        self.page.keyboard.press("Tab")
        return self.page.evaluate(FOCUS, CONTROLS)


@contextlib.contextmanager
def reader(
    browser: Browser, place: Path, *, width: int = NARROW, scheme: Literal["dark", "light"] = "dark"
) -> Iterator[Reader]:
    """Of a page that was just opened."""
    opened = browser.new_page(
        viewport={"width": width, "height": 640}, color_scheme=scheme, reduced_motion="reduce", offline=True
    )
    found = Reader(place, width, opened)
    opened.on("console", lambda message: found.heard.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: found.heard.append(str(error)))
    opened.on("dialog", lambda dialog: found.heard.append(f"dialog: {dialog.message}"))
    opened.on("request", lambda request: found.heard.append(request.url))
    opened.goto(place.as_uri())
    yield found
    opened.close()


def assert_readable(place: Path) -> None:
    """All of it, on a small screen and on a wide one."""
    with chromium() as browser:
        for width, scheme in ((NARROW, "dark"), (WIDE, "light")):
            with reader(browser, place, width=width, scheme=scheme) as each:  # type: ignore[arg-type]
                each.assert_alone()
                each.assert_fits()
                each.assert_usable_by_keyboard()
