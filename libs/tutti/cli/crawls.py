"""What a crawl knows of its URLs."""

import itertools
from collections.abc import Iterator
from typing import Any

import click

from tutti.chassis.client import Client
from tutti.cli.connection import connected, connection_options
from tutti.cli.nouns import full_name
from tutti.cli.output import output_option, print_list
from tutti.cli.plain import Plain, plain
from tutti.contracts.ingest.v1 import Crawl, ListCrawledPagesRequest

PAGE = 1_000


def extend(group: click.Group) -> None:
    """Add the verbs of a crawl to the group `crawls`."""

    @group.command("pages", help="What became of each URL: NAME, as `tutti crawls ls` has it.")
    @click.argument("name")
    @click.option("--what", default="", help="Only those: visited, visited/page, visited/failed, left/trap, refused …")
    @click.option("--limit", type=click.IntRange(min=1), default=None, help="At most so many (all).")
    @output_option
    @connection_options
    def pages(name: str, what: str, limit: int | None, output: str, **where: Any) -> None:
        full = full_name("crawls", name)
        with connected(**where) as client:
            rows = list(itertools.islice(known(client, full, what), limit))
        print_list(rows, ("url", "what", "status", "depth"), output, nothing="no URL of which that is so")


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


def progress(crawl: Crawl) -> str:
    """How far a crawl is, in words."""
    return f"{visited(crawl):,} URLs visited, {waiting(crawl):,} known that wait"


def visited(crawl: Crawl) -> int:
    """URLs that were asked for."""
    return sum(each.pages for each in crawl.counts if each.what.startswith("visited/"))


def waiting(crawl: Crawl) -> int:
    """URLs that are known and may still be asked for."""
    return sum(each.pages for each in crawl.counts if each.what in ("waiting", "found"))
