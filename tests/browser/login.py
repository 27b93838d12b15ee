"""Logging in with a link: it takes a click."""

from playwright.sync_api import Page


def log_in(page: Page, url: str) -> None:
    """Open a login link and press its button."""
    page.goto(url)
    page.get_by_role("button", name="Log in as").click()
