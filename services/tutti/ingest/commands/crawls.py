"""Commands that show the URLs of a crawl."""

import itertools
from collections.abc import Iterator
from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, print_list, print_one, say
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.contracts.common.v1 import State
from tutti.contracts.ingest.v1 import (
    CrawledHost,
    ListCrawledPagesRequest,
    ShowCrawlRequest,
    ShowCrawlResponse,
)
from tutti.report.crawls import visited, waiting
from tutti.report.values import printable

PAGE = 1_000
HOST_COLUMNS = ("host", "robots", "delay", "visited", "waiting", "trouble")
TROUBLE = ("refused/", "visited/failed", "visited/not_ok")
SHOWN = 3


def extend(group: click.Group) -> None:
    """Add the verbs of a crawl to the group `crawls`."""

    @group.command("pages", help="List the URLs of crawl NAME (default: the newest) by outcome.")
    @click.argument("name", default=LATEST)
    @click.option(
        "--what",
        default="",
        help="Only URLs with this outcome: visited, visited/page, visited/failed, left/trap, refused …",
    )
    @click.option("--limit", type=click.IntRange(min=1), default=None, help="Maximum number of URLs (default: all).")
    @output_option
    @connection_options
    def pages(name: str, what: str, limit: int | None, output: str, **where: Any) -> None:
        with connected(**where) as client:
            full = resolved(client, "crawls", name)
            rows = list(itertools.islice(known(client, full, what), limit))
        print_list(
            rows,
            ("url", "what", "status", "depth", "cause"),
            output,
            nothing=f"no URL of {full} is {what}" if what else f"{full} knows no URL",
        )

    @group.command("status", short_help="Show the state of a crawl: URLs, hosts and rules, next URLs.")
    @click.argument("name", default=LATEST)
    @click.option("--hosts", type=click.IntRange(1, 1000), default=10, show_default=True, help="Number of hosts.")
    @click.option("--next", "urls", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of URLs.")
    @output_option
    @connection_options
    def status(name: str, hosts: int, urls: int, output: str, **where: Any) -> None:
        """Show the state of a crawl: URLs by outcome, hosts with their rules and delays, and the next URLs.

        \b
        tutti crawls status                     # the newest crawl
        tutti crawls status runs/0f5c2d3e4a5b-1 # the crawl of a run
        tutti crawls status --hosts 50 -o json

        A request to an unreachable or busy host is retried up to three times with backoff; the last response is counted
        here. `tutti crawls pages NAME --what refused/robots` lists URLs.
        """
        with connected(**where) as client:
            found = client.ingest.ShowCrawl(
                ShowCrawlRequest(name=resolved(client, "crawls", name), hosts=hosts, urls=urls)
            )
        if output == JSON:
            print_one(plain(found) | {"urls_a_second": speed(found)}, output)
            return
        for line in lines(found):
            click.echo(line)
        print_list([host_row(each) for each in found.hosts], HOST_COLUMNS, output, nothing="no host was asked yet")
        if found.more_hosts:
            say(f"and {found.more_hosts:,} hosts more")
        for each in found.sitemaps:
            click.echo(f"sitemap  {each.url}  {printable(each.outcome)}")
        for url in found.next:
            click.echo(f"next  {url}")


def speed(found: ShowCrawlResponse) -> float:
    """URLs visited a second, over all the time of the crawl."""
    return visited(found.crawl) / found.seconds if found.seconds else 0.0


def lines(found: ShowCrawlResponse) -> list[str]:
    """A crawl for people, without its hosts."""
    crawl = found.crawl
    state = State.Name(crawl.state).removeprefix("STATE_").lower()
    told = [
        f"crawl      {crawl.name}  {state}{f': {printable(crawl.reason)}' if crawl.reason else ''}",
        f"visited    {visited(crawl):,} URLs in {found.seconds:,.0f} s, {speed(found):,.1f} a second",
    ]
    told += [f"{'urls' if not at else '':10} {each.pages:>9,}  {each.what}" for at, each in enumerate(crawl.counts)]
    if found.HasField("level") and state == "running":
        told.append(f"waits for  {expected(found)}")
    return told


def expected(found: ShowCrawlResponse) -> str:
    """A text about the remaining work of a crawl."""
    slow = max(found.hosts, key=lambda each: of_host(each, "waiting") * each.delay_seconds, default=None)
    words = f"{waiting(found.crawl):,} URLs, {found.level} links away from a seed and more"
    if slow is None or not found.least_seconds:
        return words
    return f"{words}; {found.least_seconds:,.0f} s at least, as {slow.host} is asked every {slow.delay_seconds:g} s"


def of_host(host: CrawledHost, beginning: str) -> int:
    """The number of URLs of a host in this state."""
    return sum(each.pages for each in host.counts if f"{each.what}/".startswith(f"{beginning}/"))


def host_row(host: CrawledHost) -> Plain:
    """A host for people; `trouble` is what it refused or could not do, the most frequent first."""
    trouble = [each for each in host.counts if each.what.startswith(TROUBLE)]
    told = sorted(trouble, key=lambda each: (-each.pages, each.what))
    answer = f" ({host.cause or host.robots_status})" if host.cause or host.robots_status else ""
    return {
        "host": host.host,
        "robots": f"{host.robots}{answer}",
        "delay": f"{host.delay_seconds:g} s",
        "visited": of_host(host, "visited"),
        "waiting": of_host(host, "waiting"),
        "trouble": ", ".join(f"{each.pages:,} {each.what.removeprefix('visited/')}" for each in told[:SHOWN]),
    }


def known(client: Client, crawl: str, what: str) -> Iterator[Plain]:
    """The URLs of a crawl, in their order."""
    token = ""
    while True:
        request = ListCrawledPagesRequest(name=crawl, what=what, page_size=PAGE, page_token=token)
        page = client.ingest.ListCrawledPages(request)
        yield from map(plain, page.pages)
        token = page.next_page_token
        if not token:
            return
