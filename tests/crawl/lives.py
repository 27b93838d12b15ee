"""A crawl of the generated site by real platforms: each is killed at its moment, all processes of it, but the last.

A moment is when the site is asked for its n-th URL, and what the platform does then: it waits for answers, which do not
come any more, or it records what came, which begins with an archive that becomes visible.
"""

import asyncio
import itertools
import math
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData, create_engine, select

from tests.crawl.site import Site
from tests.e2e.command import platform
from tests.faults.processes import kill_all, until
from tutti.client import Client, Unreachable, connect
from tutti.contracts.common.v1 import STATE_DONE, STATE_PENDING, STATE_RUNNING, GetRequest
from tutti.contracts.ingest.v1 import Crawl, CrawlSpec, CreateCrawlRequest, ListCrawledPagesRequest, Place
from tutti.ingest.crawl.frontier import Frontier, State

HOST, NAME = "site.test", "crawls/a"
ROOT, ROBOTS = f"http://{HOST}", "/robots.txt"
SECONDS = 120.0
"""In which a moment comes, or the end."""


class Holding(Site):
    """Once so many URLs were asked for it answers no more, until it is let go on."""

    def __init__(self, pages: int) -> None:
        self.connected = 0
        self._most = math.inf
        self._go = asyncio.Event()
        super().__init__(pages)

    @property
    def holds(self) -> bool:
        return len(self.asked) >= self._most

    def hold(self, most: int) -> None:
        self._loop.call_soon_threadsafe(self._go.clear)
        self._most = most

    def go_on(self) -> None:
        self._most = math.inf
        self._loop.call_soon_threadsafe(self._go.set)

    async def think(self, path: str) -> None:
        if self.holds:
            await self._go.wait()
        await super().think(path)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        try:
            await super()._connection(reader, writer)
        finally:
            self.connected -= 1


@contextmanager
def holding(pages: int) -> Iterator[Holding]:
    """The site, as long as it is wanted."""
    site = Holding(pages)
    try:
        yield site
    finally:
        site.close()


@dataclass(frozen=True)
class Moment:
    nth: int
    recording: bool

    def __str__(self) -> str:
        return f"{'recording' if self.recording else 'asking'}-{self.nth}"


def moments(kills: int, urls: int) -> list[Moment]:
    """In each of as many equal parts of a crawl of so many URLs one, somewhere; the same every time."""
    parts = [3 + (urls - 3) * part // kills for part in range(kills + 1)]
    return [
        Moment(random.Random(part[0]).randrange(*part), recording=number % 2 == 0)
        for number, part in enumerate(itertools.pairwise(parts))
    ]


@dataclass(frozen=True)
class Life:
    """What a platform asked for until it was killed, and how often; each path that was recorded by then, with the
    archive that has its answer; and all archives that were there.
    """

    asked: Counter[str]
    recorded: dict[str, str]
    archives: set[str]

    @property
    def lost(self) -> set[str]:
        return self.asked.keys() - self.recorded.keys() - {ROBOTS}

    @property
    def stray(self) -> set[str]:
        """Archives that nothing refers to."""
        return self.archives - set(self.recorded.values())


@dataclass(frozen=True)
class Whole:
    """What a crawl came to: `known` has path to what became of it, its status and how far away it is."""

    crawl: Crawl
    known: dict[str, tuple[str, int, int]]

    @property
    def visited(self) -> set[str]:
        return {path for path, (what, *_) in self.known.items() if what.startswith("visited/")}


def spec_of(site: Site) -> CrawlSpec:
    """All of the site, as fast as it answers."""
    place = Place(host=HOST, address=site.root.partition("://")[2])
    return CrawlSpec(seeds=[f"{ROOT}/"], contact="me@a.example", depth=100, alike=20, connections=8, connect=[place])


def crawl(data_dir: Path, site: Holding, chain: Sequence[Moment] = ()) -> tuple[list[Life], Whole]:
    """Once begun, it goes on by itself whenever a platform is up."""
    lives: list[Life] = []
    for moment in chain:
        site.hold(moment.nth)
        with platform(data_dir, agents=0) as process:
            if not lives:
                begin(data_dir, site)
            lives.append(killed(data_dir, site, moment, process, sum((each.asked for each in lives), Counter())))
    with platform(data_dir, agents=0):
        if not lives:
            begin(data_dir, site)
        with connect(data_dir) as client:
            return lives, Whole(ended(client), known(client))


def begin(data_dir: Path, site: Site) -> None:
    with connect(data_dir) as client:
        client.ingest.CreateCrawl(CreateCrawlRequest(request_id="a", name=NAME, spec=spec_of(site)))


def killed(data_dir: Path, site: Holding, moment: Moment, process: subprocess.Popen[str], before: Counter[str]) -> Life:
    """A life that ends at its moment; `before`: what had been asked for when it began."""
    done = data_dir / "blobs/ingest/crawls/manifests"
    until(lambda: site.holds or done.exists() or process.poll() is not None, seconds=SECONDS, what=str(moment))
    assert process.poll() is None, process.communicate()[1]
    assert site.holds, f"the crawl was done before {moment}: URLs were lost"
    if moment.recording:
        count = len(archives(data_dir))
        site.go_on()
        until(lambda: len(archives(data_dir)) > count, seconds=SECONDS, what=f"an archive after {moment}")
    assert kill_all(data_dir, process.pid) >= 3
    site.go_on()
    until(lambda: site.connected == 0, seconds=SECONDS, what="the end of all connections")
    return Life(site.asked - before, recorded(data_dir), archives(data_dir))


def archives(data_dir: Path) -> set[str]:
    return {f"ingest/archives/{each.name}" for each in (data_dir / "blobs/ingest/archives").glob("*")}


def recorded(data_dir: Path) -> dict[str, str]:
    """By path the archive of each that was visited, in a database that nobody has open: in a copy of it, so that the
    next life finds all as it was left.
    """
    pages, copy = Frontier(MetaData()).pages, data_dir.parent / "copy"
    shutil.copytree(data_dir / "db", copy)
    engine = create_engine(f"sqlite:///{copy / 'ingest.db'}")
    try:
        with engine.connect() as connection:
            visited = select(pages).where(pages.c.crawl == NAME, pages.c.state == State.VISITED)
            return {row.url.removeprefix(ROOT): row.archive for row in connection.execute(visited)}
    finally:
        engine.dispose()
        shutil.rmtree(copy)


def ended(client: Client) -> Crawl:
    """The crawl, once it is."""
    found = Crawl()

    def over() -> bool:
        try:
            found.CopyFrom(client.ingest.GetCrawl(GetRequest(name=NAME)))
        except Unreachable:  # where those lay that were killed
            return False
        return found.state not in (STATE_PENDING, STATE_RUNNING)

    until(over, seconds=SECONDS, what="the end of the crawl")
    assert found.state == STATE_DONE, found.reason
    return found


def known(client: Client) -> dict[str, tuple[str, int, int]]:
    """Path to what became of it, its status and how far away it is."""
    found: dict[str, tuple[str, int, int]] = {}
    request = ListCrawledPagesRequest(name=NAME, page_size=1_000)
    while True:
        answer = client.ingest.ListCrawledPages(request)
        found |= {each.url.removeprefix(ROOT): (each.what, each.status, each.depth) for each in answer.pages}
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token
