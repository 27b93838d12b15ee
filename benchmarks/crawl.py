"""Crawling a static site on loopback: pages a second of one core, and memory, beside fetching its pages alone.

All of it counts: robots.txt, links found and made canonical, the scope, the frontier in a database on disk, records of
WARC compressed and stored. The peer is aiohttp, which fetches the same URLs over as many connections and looks at none.
The site is in a process of its own, whose time does not count; its pages are the standard library's documentation.
Memory is the most that a process had resident at once which did nothing else.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import MetaData
from tools import exhibit

from benchmarks.crawl_site import LINKS
from benchmarks.pairs import alternate, timed
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.resident import memory_row, nothing, peak_of
from benchmarks.table import Row, at_least
from tutti.backbone import SystemClock, SystemRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.store.unit import Units
from tutti.ingest.crawl.asking import Manner
from tutti.ingest.crawl.crawling import Crawling, Plan
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawl.scope import Scope
from tutti.ingest.crawl.visiting import visit_all

GOAL_PAGES = 300.0
CONNECTIONS = 16
FEW, MANY, VISITED = 10, 1000, 2000


@dataclass
class Host:
    """As much of a service's host as a crawl needs."""

    units: Units
    blobs: EmbeddedBlobs
    clock: SystemClock


def measure(quick: bool) -> list[Row]:
    """Pages a second of process time, over several crawls."""
    pages = exhibit.build(ROOT / "build" / "exhibit")
    copies = 1 if quick else 5
    with site(pages.folder, copies) as root:
        urls = [f"{root}/docs/{copy}/{page.name}" for copy in range(copies) for page in pages.folder.glob("*.html")]
        turns = alternate(lambda: crawled(f"{root}/", len(urls) + 1), lambda: fetched(urls), pairs=3 if quick else 5)
        resident = [(peak_of(crawled, f"{root}/", len(urls) + 1), peak_of(fetched, urls)) for _ in range(3)]
        few, many = (peak_of(begun, f"{root}/wide/{lists}") for lists in (FEW, FEW if quick else MANY))
    what = "crawl of a static site"
    ours, peer = map(list, zip(*resident, strict=True))
    return [
        Row.of_speed(
            what,
            unit="pages/s of a core",
            amount=len(urls),
            pairs=turns,
            goal=at_least(GOAL_PAGES),
            note=f"{len(urls)} pages, {CONNECTIONS} connections; peer: aiohttp alone, nothing looked at or kept",
        ),
        memory_row(what, ours, peer, f"{len(urls)} pages; {peak_of(nothing):.0f} MB of both are what is loaded"),
        memory_row(
            f"crawl that knows {(FEW if quick else MANY) * LINKS:,} URLs",
            [many],
            [],
            f"{few:.0f} MB where it knows {FEW * LINKS:,}; all of these are to be visited, {VISITED} are",
        ),
    ]


@contextlib.contextmanager
def site(folder: Path, copies: int) -> Iterator[str]:
    """The root of the site, while it is served."""
    command = [sys.executable, "-m", "benchmarks.crawl_site", str(folder), str(copies)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(served.stdout.readline())}"
        finally:
            served.communicate()


class Enough(Exception):
    """So many pages were visited."""


def begun(seed: str) -> None:
    """A crawl of a wide site, given up when VISITED pages of its last level have been visited."""
    visited = 0
    lists = int(seed.rpartition("/")[2])

    def run(work: Callable[..., Any], *given: Any) -> Any:
        nonlocal visited
        if work is visit_all:
            visited += len(given[0])
        if visited > 1 + lists + VISITED:
            raise Enough
        return work(*given)

    with contextlib.suppress(Enough):
        crawled(seed, 0, run)


def crawled(seed: str, pages: int, run: Callable[..., Any] = lambda work, *given: work(*given)) -> float:
    """A crawl of all that is below a page into a new folder; core seconds. Raises WentWrong unless it kept so many."""
    manner = Manner("bench@a.example", 0.0, connections_of_host=CONNECTIONS, allow_private=True)
    plan = Plan((seed,), Scope((seed,)), manner)
    with scratch("crawl") as folder:
        clock, metadata = SystemClock(), MetaData()
        database = EmbeddedDatabase(Path(folder) / "crawl.db", clock=clock)
        units = Units(database, "ingest", metadata, clock=clock, randomness=SystemRandomness())
        frontier, host = Frontier(metadata), Host(units, EmbeddedBlobs(Path(folder) / "blobs"), clock)
        database.create(metadata)
        crawl = Crawling(host, frontier, "crawls/bench", plan)  # type: ignore[arg-type]
        try:
            core = timed(lambda: crawl.run(run, lambda: None), time.process_time)()
            if (kept := units.run(lambda unit: frontier.counts(unit, "crawls/bench")).get("visited/page")) != pages:
                raise WentWrong(f"the crawl kept {kept} pages; expected {pages}")
            return core
        finally:
            database.close()


def fetched(urls: Sequence[str]) -> float:
    """The same pages by a bare client; core seconds."""

    async def one(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(url) as response:
            await response.read()

    async def every() -> None:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(one(session, url) for url in urls))

    return timed(lambda: asyncio.run(every()), time.process_time)()


if __name__ == "__main__":
    main("crawl", __doc__, measure)
