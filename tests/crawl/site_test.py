"""Crawling a hostile site of a few hundred pages: what can be reached and is allowed is fetched, whatever is killed."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator
from sqlalchemy import select

from tests.crawl.site import Site, reachable
from tests.scale import scale
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.tasks_test import Bench
from tutti.contracts.ingest.v1 import Crawl, CrawlSpec
from tutti.ingest.crawl.asking import Manner
from tutti.ingest.crawl.crawling import Crawling, Plan
from tutti.ingest.crawl.crawlstate import Standing
from tutti.ingest.crawl.fetching import Limits
from tutti.ingest.crawl.frontier import Frontier, State
from tutti.ingest.crawl.scope import Scope
from tutti.ingest.crawl.visiting import visit_all


class Killed(Exception):
    """Stands for SIGKILL: nothing of what was under way is kept."""


def dying(last: int) -> Callable[..., Any]:
    """What runs the work of a crawl, and is killed with what it has been given for the `last` time done."""
    calls = 0

    def run(work: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        found = work(*arguments)
        if calls == last:
            raise Killed
        return found

    return run


class Lives:
    """What runs the work of a crawl that is killed so many times and goes on: in each of as many equal parts of its
    `calls` once, somewhere, when what it was given is done. The same every time.
    """

    def __init__(self, kills: int, calls: int) -> None:
        parts = [2 + (calls - 2) * part // kills for part in range(kills + 1)]
        self.moments = [random.Random(part[0]).randrange(*part) for part in itertools.pairwise(parts)]
        self.calls = 0

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        self.calls += 1
        found = work(*arguments)
        if self.calls in self.moments:
            raise Killed
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site(scale(test=300, soak=5_000))
    yield made
    made.close()


class World:
    def __init__(self, folder: Path, site: Site, **scope: Any) -> None:
        self.bench = Bench(EmbeddedBlobs(folder / "blobs"), service="ingest")
        self.frontier = Frontier(self.bench.metadata)
        self.bench.database.create(self.bench.metadata)
        limits = Limits(connect_seconds=5, silent_seconds=5, total_seconds=10, max_bytes=1 << 20)
        manner = Manner("https://a.example/bot", 0.0, connections_of_host=8, limits=limits, allow_private=True)
        scoped = Scope(**{"prefixes": (f"{site.root}/",), "alike": 20, **scope})
        self.plan = Plan((f"{site.root}/",), scoped, manner, batch=8)
        self.root = site.root

    def crawl(
        self,
        run: Callable[..., Any] = lambda work, *arguments: work(*arguments),
        name: str = "crawls/a",
        since: str = "",
    ) -> None:
        Crawling(self.bench, self.frontier, name, replace(self.plan, since=since)).run(run, lambda: None)

    def known(self, name: str = "crawls/a") -> dict[str, str]:
        """Path to what became of it."""
        pages = select(self.frontier.pages).where(self.frontier.pages.c.crawl == name)
        rows = self.bench.units.run(lambda unit: unit.tx.execute(pages).all())
        return {
            row.url.removeprefix(self.root): f"{State(row.state).name.lower()}/{row.outcome or row.reason}"
            for row in rows
        }

    def archives(self) -> list[Path]:
        return [Path(self.bench.blobs._path(each.key)) for each in self.bench.blobs.list("ingest/archives/")]  # type: ignore[attr-defined]

    def answers(self) -> Iterator[tuple[str, bytes]]:
        """Path and answer, head and body, of each that stands in the archives."""
        for path in self.archives():
            for record in ArchiveIterator(str(path), parse_http=False):
                if record.headers.get("WARC-Type") == "response":
                    yield record.headers["WARC-Target-URI"].removeprefix(self.root), record.reader.read()

    def archived(self) -> Counter[str]:
        """How often each path stands in the archives as an answer."""
        return Counter(path for path, _ in self.answers())


def test_what_is_fetched_is_what_can_be_reached_and_is_allowed(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl()
    known = world.known()
    pages = reachable(site.pages)
    assert {path for path, what in known.items() if path in pages and what == "visited/page"} == {
        path for path in pages if not path.startswith("/broken")
    }
    assert {known[path] for path in pages if path.startswith("/broken")} == {"visited/not_ok"}
    assert known["/private/a"] == "refused/robots"
    assert "/private/a" not in site.asked
    assert known["http://10.0.0.1/"] == known["http://elsewhere.invalid/"] == "left/elsewhere"
    assert not [url for url in known if url.startswith(("file:", "javascript:"))]
    assert (known["/image"], known["/busy"], known["/round"]) == (
        "visited/not_text",
        "visited/page",
        "visited/redirect",
    )
    assert known["/r/10"] == "visited/redirect"
    assert known["/r/11"] == "left/redirects"
    days = [what for path, what in known.items() if path.startswith("/calendar")]
    assert days.count("visited/page") <= 21
    assert days.count("left/trap") > 0
    assert site.asked["/robots.txt"] == 1
    assert set(world.archived()) == {path for path, what in known.items() if what.startswith("visited/")}


@pytest.mark.parametrize("limit", [40, 100_000])
def test_killed_anywhere_the_same_is_fetched_and_nothing_twice_but_what_was_on_its_way(
    limit: int, site: Site, tmp_path: Path
) -> None:
    kills = scale(test=3, soak=10) if limit > 40 else 3
    (tmp_path / "calm").mkdir()
    calm, counted = World(tmp_path / "calm", site, pages=limit), Lives(1, 10**9)
    calm.crawl(counted.run)
    asked = Counter(site.asked)
    site.asked.clear()
    (tmp_path / "killed").mkdir()
    world, lives = World(tmp_path / "killed", site, pages=limit), Lives(kills, counted.calls)
    visited = []
    for moment in lives.moments:
        with pytest.raises(Killed):
            world.crawl(lives.run)
        assert lives.calls == moment
        visited.append(sum(what.startswith("visited/") for what in world.known().values()))
    world.crawl(lives.run)
    assert visited == sorted(visited)
    assert world.known() == calm.known()
    assert set(world.archived().values()) == {1}
    whole = sum(what.startswith("visited/") for what in calm.known().values())
    assert visited[0] < whole / 2 < visited[-1]
    again = sum((site.asked - asked).values())
    assert 0 < again <= kills * world.plan.batch


def test_a_robots_txt_that_is_away_for_a_moment_is_asked_for_again(site: Site, tmp_path: Path) -> None:
    site.away.add("/robots.txt")
    world = World(tmp_path, site, pages=3)
    world.crawl()
    assert world.known()["/"] == "visited/page"
    assert site.asked["/robots.txt"] == 2


def test_limits_cut_the_same_pages_every_time(site: Site, tmp_path: Path) -> None:
    seen = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, site, pages=40, depth=3)
        world.crawl()
        seen.append(world.known())
    assert seen[0] == seen[1]
    assert sum(what.startswith(("visited/", "refused/")) for what in seen[0].values()) == 40
    assert {"left/limit"} <= set(seen[0].values())


def test_where_a_crawl_stands_is_told_by_host_with_what_comes_next(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    crawl = Crawl(name="crawls/a", spec=CrawlSpec(delay_seconds=2))
    crawl.started_at.FromDatetime(world.bench.clock.now())
    before = Standing(world.bench, world.frontier, crawl).told(5, 3)
    assert (len(before.hosts), before.HasField("level"), before.least_seconds) == (0, False, 0)

    def killed(work: Callable[..., Any], *arguments: Any) -> Any:
        if work is visit_all and world.known().get("/image"):
            raise Killed
        return work(*arguments)

    with pytest.raises(Killed):
        world.crawl(killed)
    world.bench.clock.advance(10)
    told = Standing(world.bench, world.frontier, crawl).told(5, 3)
    (host,) = told.hosts
    assert (host.host, host.robots, host.robots_status, host.delay_seconds) == (site.root, "rules", 200, 2)
    counts = {each.what: each.pages for each in host.counts}
    assert counts["visited/page"] == 1
    assert counts["refused/robots"] == 1
    assert (told.level, told.seconds, told.more_hosts) == (1, 10, 0)
    assert told.least_seconds == 2 * counts["waiting"] > 0
    assert len(told.next) == 3
    world.crawl()
    done = Standing(world.bench, world.frontier, crawl).told(5, 3)
    assert (done.HasField("level"), list(done.next), done.least_seconds) == (False, [], 0)
    broken = {each.what: each.pages for each in done.hosts[0].counts}["visited/not_ok/404"]
    assert broken == len([what for what in world.known().values() if what == "visited/not_ok"])
