"""`tutti open`: the pages of the platform in a browser."""

import os
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click

from tutti.chassis.errors import Unavailable
from tutti.cli import loginfiles
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.client import Client
from tutti.contracts.access.v1 import IssueLinkRequest
from tutti.contracts.admin.v1 import DescribeRequest
from tutti.web.tokens import digest, new_token


@dataclass(frozen=True)
class LoginLink:
    """A link that logs in once, until `expires_at` (RFC 3339)."""

    url: str
    expires_at: str
    request: IssueLinkRequest

    def used(self, client: Client) -> bool:
        """Return True once it has logged somebody in; False if the platform does not answer."""
        try:
            return client.access.IssueLink(self.request).used
        except Unavailable:
            return False


def new_link(client: Client, base: str, path: str, user: str = "") -> LoginLink:
    """Issue a link to `path` for a user, by default the one who asks; `base` is the URL of the pages."""
    token = new_token()
    request = IssueLinkRequest(link_digest=digest(token), user=user)
    link = client.access.IssueLink(request)
    return LoginLink(f"{base}/login/{token}?next={quote(path)}", link.expires_at.ToJsonString(), request)


def pages_of(client: Client, service: str) -> str:
    """The URL of the pages of a service. Raises Failure."""
    for each in client.admin.Describe(DescribeRequest()).services:
        if each.name == service and each.pages:
            return str(each.pages)
    raise Failure(
        f"{service} serves no pages: install Tutti with them (pip install 'tutti[web]') where it runs, and restart it"
    )


def say_moved(client: Client) -> None:
    """Name the addresses at which the pages were before, if they are not there any more."""
    services = client.admin.Describe(DescribeRequest()).services
    for url, former in sorted({(each.pages, ", ".join(each.former_pages)) for each in services if each.former_pages}):
        say(f"the pages are at {url} now, and no longer at {former}; tabs there can save unsent judgements to a file")


@click.command("open", short_help="Open the page of a run, of all runs, or the chat in a browser.")
@click.argument("run", default="")
@click.option("--chat", is_flag=True, help="Open the chat with the models that serve.")
@click.option("--browser/--no-browser", default=None, help="Start a browser (default: if there is a display).")
@output_option
@connection_options
def open_(run: str, chat: bool, browser: bool | None, output: str, **where: Any) -> None:
    """Print a link to the page of RUN (default: of all runs), and open it if there is a browser.

    The link logs you in once and expires after ten minutes. The platform must run. The browser gets the link from a
    file that only you can read; the command removes the file and ends when you are logged in, or after 30 seconds.
    """
    if run and chat:
        raise click.UsageError(f"--chat opens the chat, and RUN ({run}) the page of a run: leave one of them out")
    with connected(**where) as client:
        service, path = ("chat", "/chat") if chat else ("pipeline", "/runs")
        link = new_link(client, pages_of(client, service), f"/{resolved(client, 'runs', run)}" if run else path)
        say_moved(client)
        if output == JSON:
            print_json({"url": link.url})
            return
        click.echo(link.url)
        if has_screen() if browser is None else browser:
            _browse(client, link)


def _browse(client: Client, link: LoginLink) -> None:
    try:
        started = loginfiles.browse(link.url, lambda: link.used(client))
    except OSError as error:
        say(f"no file for a browser can be written ({error}): copy the link into one")
        return
    if not started:
        say("no browser could be started: copy the link into one")


def has_screen() -> bool:
    """Return whether a browser that is started here would be seen."""
    if not sys.stdout.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
