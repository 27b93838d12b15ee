"""Towards the servers of others: how fast, how many at once, and what is done when they ask to be left alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator

from tests.crawl.site_test import Killed
from tests.crawl.virtual import HTML, Headers, Hosts, page
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.progress import Progress, listen
from tutti.chassis.tasks_test import Bench
from tutti.contracts.ingest.v1 import CrawlSpec
from tutti.ingest.crawl.crawling import Crawling
from tutti.ingest.crawl.fetching import Answer
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawl.pacing import LONGEST_WAIT_SECONDS, retry_after
from tutti.ingest.crawl.visiting import visit_all
from tutti.ingest.crawls import plan_of

ROOT = "http://a.example"
ALMOST = 1e-3
Said = tuple[int, Headers, bytes]


def tree(width: int) -> Callable[[str, int], Said]:
    """A page with so many below it."""

    def answer(url: str, _: int) -> Said:
        return page([f"/{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(width)])

    return answer


class World:
    """A crawl in virtual time."""

    def __init__(self, folder: Path, *seeds: str, **spec: Any) -> None:
        self.bench = Bench(EmbeddedBlobs(folder / "blobs"), service="ingest")
        self.frontier = Frontier(self.bench.metadata)
        self.bench.database.create(self.bench.metadata)
        asked = {"contact": "me@a.example", "depth": 3, "delay_seconds": 1.0, "skip_sitemaps": True, **spec}
        self.plan = plan_of(CrawlSpec(seeds=seeds or (f"{ROOT}/",), **asked))

    def crawl(self, run: Callable[..., Any]) -> None:
        Crawling(self.bench, self.frontier, "crawls/a", self.plan).run(run, lambda: None)

    def known(self) -> dict[str, str]:
        found = self.bench.units.run(lambda unit: self.frontier.known(unit, "crawls/a", limit=10_000))
        return {each.url: each.what for each in found}


@pytest.mark.parametrize(("delay", "width"), [(0.5, 130), (7.0, 8), (20.0, 4), (90.0, 4)])
def test_the_delay_holds_within_batches_and_between_them(delay: float, width: int, tmp_path: Path) -> None:
    world = World(tmp_path, delay_seconds=delay)
    hosts = Hosts(world.bench.clock, tree(width), seconds=0.1)
    world.crawl(hosts.run)
    assert len(hosts.batches) > 3
    assert len(hosts.asked) == width + 1
    assert min(hosts.gaps(ROOT)) > delay - ALMOST
    assert hosts.times(ROOT)[-1] < delay * (width + 2)  # and no slower than that, from robots.txt on


def test_the_delay_that_a_host_asks_for_holds_where_it_is_longer(tmp_path: Path) -> None:
    world = World(tmp_path, delay_seconds=1)
    hosts = Hosts(world.bench.clock, tree(70), {ROOT: b"User-agent: *\nCrawl-delay: 4\n"})
    world.crawl(hosts.run)
    assert len(hosts.batches) > 3
    assert min(hosts.gaps(ROOT)) > 4 - ALMOST


@pytest.mark.parametrize("connections", [1, 3])
def test_a_host_sees_no_more_at_once_than_it_may(connections: int, tmp_path: Path) -> None:
    world = World(tmp_path, delay_seconds=0.1, connections=connections)
    hosts = Hosts(world.bench.clock, tree(30), seconds=5)
    world.crawl(hosts.run)
    assert hosts.most_under_way == connections


def test_a_host_that_was_asked_before_a_crawl_was_stopped_is_left_alone_for_a_delay(tmp_path: Path) -> None:
    world = World(tmp_path, delay_seconds=30)
    hosts = Hosts(world.bench.clock, tree(9))
    for last in (2, 3):
        calls = 0

        def run(work: Callable[..., Any], *arguments: Any, last: int = last) -> Any:
            nonlocal calls
            calls += work is visit_all
            found = hosts.run(work, *arguments)
            if calls == last:
                raise Killed
            return found

        with pytest.raises(Killed):
            world.crawl(run)
    world.crawl(hosts.run)
    assert len(hosts.asked) == 10 + 2
    assert min(hosts.gaps(ROOT)) > 30 - ALMOST


@pytest.mark.parametrize(("status", "asked", "wait"), [(429, "120", 120.0), (503, "120", 120.0)])
@pytest.mark.parametrize("connections", [1, 4])
def test_the_whole_host_waits_as_long_as_it_asks(
    status: int, asked: str, wait: float, connections: int, tmp_path: Path
) -> None:
    busy = f"{ROOT}/ac"

    def answer(url: str, times: int) -> Said:
        if url == busy and times == 1:
            return status, (("Retry-After", asked),), b""
        return tree(12)(url, times)

    world = World(tmp_path, f"{ROOT}/", "http://b.example/", delay_seconds=1, connections=connections)
    hosts = Hosts(world.bench.clock, answer, seconds=0.01)
    world.crawl(hosts.run)
    at = next(at for at, url in hosts.asked if url == busy)
    after = min(time for time in hosts.times(ROOT) if time > at)
    assert wait - ALMOST < after - at < wait + 1
    assert set(world.known().values()) == {"visited/page"}
    assert len(hosts.times("http://b.example")) == 13


@pytest.mark.parametrize(("asked", "wait"), [("0", 1.0), ("7", 7.0), (None, 2.0)])
def test_a_page_is_asked_for_again_when_its_host_says_and_as_late_as_tries_take_where_it_does_not(
    asked: str | None, wait: float, tmp_path: Path
) -> None:
    def answer(url: str, times: int) -> Said:
        return page([]) if times > 1 else (429, (("Retry-After", asked),) if asked else (), b"")

    world = World(tmp_path)
    hosts = Hosts(world.bench.clock, answer)
    world.crawl(hosts.run)
    assert hosts.gaps(ROOT) == [pytest.approx(wait, abs=ALMOST)]


def test_a_host_that_asks_to_be_left_alone_for_too_long_is_and_its_pages_say_so(tmp_path: Path) -> None:
    def answer(url: str, times: int) -> Said:
        if url == f"{ROOT}/ac":
            return 429, (("Retry-After", str(int(LONGEST_WAIT_SECONDS) + 60)),), b""
        return tree(12)(url, times)

    world = World(tmp_path, f"{ROOT}/", "http://b.example/")
    hosts = Hosts(world.bench.clock, answer)
    world.crawl(hosts.run)
    known = world.known()
    assert [url for at, url in hosts.asked if url.startswith(ROOT)] == [f"{ROOT}/", *(f"{ROOT}/a{x}" for x in "abc")]
    assert known[f"{ROOT}/ac"] == "visited/not_ok"
    assert {known[f"{ROOT}/a{x}"] for x in "defghijkl"} == {"visited/failed"}
    counts = world.bench.units.run(lambda unit: world.frontier.counts_of_host(unit, "crawls/a", ROOT))
    assert counts == {"visited/page": 3, "visited/not_ok/429/busy": 1, "visited/failed/busy": 9}
    assert len(hosts.times("http://b.example")) == 13


def test_a_host_that_is_busy_for_good_is_asked_little(tmp_path: Path) -> None:
    def answer(url: str, times: int) -> Said:
        return tree(50)(url, times) if url == f"{ROOT}/" else (503, (("Retry-After", "60"),), b"")

    world = World(tmp_path)
    hosts = Hosts(world.bench.clock, answer)
    world.crawl(hosts.run)
    assert min(hosts.gaps(ROOT)[1:]) > 60 - ALMOST
    assert len(hosts.asked) == 1 + 3 + 2  # three times before it is given up, then once for twenty pages


def test_a_single_page_that_fails_is_tried_again_and_holds_nothing_back(tmp_path: Path) -> None:
    def answer(url: str, times: int) -> Said:
        return (500, (HTML,), b"") if url == f"{ROOT}/aa" else tree(12)(url, times)

    world = World(tmp_path)
    hosts = Hosts(world.bench.clock, answer)
    world.crawl(hosts.run)
    assert [url for _, url in hosts.asked].count(f"{ROOT}/aa") == 3
    assert world.known()[f"{ROOT}/aa"] == "visited/not_ok"
    assert max(hosts.gaps(ROOT)[:12]) < 1 + ALMOST


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 -0000", 0.0),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 9999 00:00:00 -9999", None),
        ("\u0661", None),
    ],
)
def test_what_retry_after_says(said: str, seconds: float | None) -> None:
    assert retry_after(Answer(ROOT, "HTTP/1.1", 429, "", (("Retry-After", said),), b"")) == seconds


def test_a_page_that_brings_a_defect_to_light_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def answer(url: str, times: int) -> Said:
        if url == f"{ROOT}/ac":
            raise RecursionError("too deep")
        return tree(12)(url, times)

    world = World(tmp_path)
    world.crawl(Hosts(world.bench.clock, answer).run)
    known = world.known()
    assert [url for url, what in known.items() if what != "visited/page"] == [f"{ROOT}/ac"]
    assert world.bench.units.run(lambda unit: world.frontier.counts_of_host(unit, "crawls/a", ROOT)) == {
        "visited/page": 12,
        "visited/failed/unexpected": 1,
    }
    assert "RecursionError: too deep" in caplog.text


def test_a_page_that_asks_all_not_to_keep_it_is_not_kept_whatever_it_asks_one_beside(tmp_path: Path) -> None:
    asked = {
        f"{ROOT}/ab": ("another: nofollow", "max-snippet:20, noindex"),
        f"{ROOT}/ac": ("another: noindex", "nofollow"),
        f"{ROOT}/ad": ("another: none",),
    }

    def answer(url: str, times: int) -> Said:
        if url == f"{ROOT}/":
            return tree(4)(url, times)
        status, headers, body = page([f"{url}/below"] if url in asked else [])
        return status, (*headers, *(("X-Robots-Tag", each) for each in asked.get(url, ()))), body

    world = World(tmp_path)
    world.crawl(Hosts(world.bench.clock, answer).run)
    known = world.known()
    assert {url: what for url, what in known.items() if what != "visited/page"} == {f"{ROOT}/ab": "visited/no_index"}
    assert [url for url in known if url.endswith("/below")] == [f"{ROOT}/ab/below", f"{ROOT}/ad/below"]
    assert f"{ROOT}/ab" not in archived(world)


def several(hosts: int, width: int) -> Callable[[str, int], Said]:
    """A page that leads to so many pages of each host."""

    def answer(url: str, times: int) -> Said:
        if url != f"{ROOT}/":
            return page([])
        below = [f"/{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(width)]
        return page([f"http://{chr(97 + each)}.example{path}" for each in range(hosts) for path in below])

    return answer


def test_hosts_are_crawled_beside_each_other(tmp_path: Path) -> None:
    within = [f"http://{each}.example/" for each in "abcd"]
    world = World(tmp_path, within=within, delay_seconds=1)
    hosts = Hosts(world.bench.clock, several(4, 60))
    world.crawl(hosts.run)
    assert len(hosts.asked) == 1 + 4 * 60
    assert {len(hosts.times(root.removesuffix("/"))) for root in within} == {60, 61}
    assert min(min(hosts.gaps(root.removesuffix("/"))) for root in within) > 1 - ALMOST
    assert world.bench.clock.monotonic() < 1 + 61 + 10  # as long as one of them takes, not as all
    assert max(map(len, hosts.batches)) <= 200


def test_a_host_that_wants_a_long_pause_holds_no_other_up(tmp_path: Path) -> None:
    world = World(tmp_path, within=["http://a.example/", "http://b.example/"], delay_seconds=1)
    hosts = Hosts(world.bench.clock, several(2, 60), {"http://b.example": b"User-agent: *\nCrawl-delay: 50"})
    world.crawl(hosts.run)
    assert hosts.times(ROOT)[-1] < 100
    assert min(hosts.gaps("http://b.example")) > 50 - ALMOST
    assert len(hosts.times("http://b.example")) == 60


def test_more_hosts_than_fit_together_come_in_turn(tmp_path: Path) -> None:
    def answer(url: str, times: int) -> Said:
        if url != f"{ROOT}/":
            return page([])
        return page([f"http://h{each:03}.example/{path}" for each in range(130) for path in "xy"])

    world = World(tmp_path, delay_seconds=10)
    world.plan = replace(world.plan, scope=replace(world.plan.scope, prefixes=("http://",)))
    hosts = Hosts(world.bench.clock, answer)
    world.crawl(hosts.run)
    firsts = [url for _, url in hosts.asked if url.endswith("/x")]
    assert len(firsts) == 130
    assert len(hosts.asked) == 1 + 2 * 130
    assert min(min(hosts.gaps(f"http://h{each:03}.example")) for each in range(130)) > 10 - ALMOST


def archived(world: World) -> list[str]:
    """The URLs of all answers in the order of the archives."""
    found = []
    for key in world.bench.units.run(lambda unit: world.frontier.archives(unit, "crawls/a")):
        path = world.bench.blobs._path(key)  # type: ignore[attr-defined]
        records = ArchiveIterator(str(path), parse_http=False)
        found += [each.headers["WARC-Target-URI"] for each in records if each.headers["WARC-Type"] == "response"]
    return found


def dying(run: Callable[..., Any], batches: int) -> Callable[..., Any]:
    """Killed when so many batches were visited, of which the last is lost."""
    visited = 0

    def work(fn: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal visited
        found = run(fn, *arguments)
        visited += fn is visit_all
        if visited == batches:
            raise Killed
        return found

    return work


@pytest.mark.parametrize("delay", [0.0, 1.0, 30.0])
def test_archives_have_the_pages_in_the_order_of_their_level_and_url_whatever_was_visited_together(
    delay: float, tmp_path: Path
) -> None:
    world = World(tmp_path, within=[f"http://{each}.example/" for each in "abc"], delay_seconds=delay)
    hosts = Hosts(
        world.bench.clock, several(3, 30), {"http://b.example": b"User-agent: *\nDisallow: /ac\nCrawl-delay: 3"}
    )
    calls = 0

    def run(work: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal calls
        calls += work is visit_all
        if calls == 3:
            raise Killed
        return hosts.run(work, *arguments)

    with pytest.raises(Killed):
        world.crawl(run)
    world.crawl(hosts.run)
    found = archived(world)
    known = world.bench.units.run(lambda unit: world.frontier.known(unit, "crawls/a", "visited", limit=1_000))
    assert found == [each.url for each in sorted(known, key=lambda each: (each.depth, each.url))]
    assert len(found) == 1 + 3 * 30 - 1


@pytest.mark.parametrize("kill", [0, 2, 3, 5])
def test_archives_have_the_pages_in_order_where_some_are_put_off_and_the_others_are_not_held_up(
    kill: int, tmp_path: Path
) -> None:
    def answer(url: str, times: int) -> Said:
        number = ord(url[-1]) % 7
        if url == f"{ROOT}/" or number > 1 or times > 2:
            return tree(40)(url, times)
        busy = number == 0 and url.startswith(ROOT)
        return (429, (("Retry-After", "300"),), b"") if busy else (500, (HTML,), b"")

    world = World(tmp_path, f"{ROOT}/", "http://b.example/", delay_seconds=1, connections=3)
    hosts = Hosts(world.bench.clock, answer)
    if kill:
        with pytest.raises(Killed):
            world.crawl(dying(hosts.run, kill))
    world.crawl(hosts.run)
    assert hosts.times("http://b.example")[-1] < 100 < 300 < hosts.times(ROOT)[-1]
    visited = world.bench.units.run(lambda unit: world.frontier.known(unit, "crawls/a", "visited", limit=1_000))
    found = archived(world)
    assert found == [each.url for each in sorted(visited, key=lambda each: (each.depth, each.url))]
    assert len(found) == 2 * 41


def test_how_far_a_crawl_is_counts_each_page_as_it_comes_and_what_was_visited_before(tmp_path: Path) -> None:
    world = World(tmp_path)
    hosts = Hosts(world.bench.clock, tree(40))
    with pytest.raises(Killed):
        world.crawl(dying(hosts.run, 3))
    before = list(world.known().values()).count("visited/page")
    heard: list[Progress] = []
    listen(heard.append)
    try:
        world.crawl(hosts.run)
    finally:
        listen(None)
    assert before > 1
    assert heard[0] == Progress(before + 1, 0, "URLs")


def test_what_comes_next_is_of_all_hosts_in_turn(tmp_path: Path) -> None:
    world = World(tmp_path, within=[f"http://{each}.example/" for each in "abc"])
    hosts = Hosts(world.bench.clock, several(3, 30))

    def run(work: Callable[..., Any], *arguments: Any) -> Any:
        if len(hosts.batches) == 1 and work is visit_all:
            raise Killed
        return hosts.run(work, *arguments)

    with pytest.raises(Killed):
        world.crawl(run)
    coming = world.bench.units.run(lambda unit: world.frontier.coming(unit, "crawls/a", 1, 5))
    assert coming == [
        f"http://{each}" for each in ("a.example/aa", "b.example/aa", "c.example/aa", "a.example/ab", "b.example/ab")
    ]


def chain(length: int) -> Callable[[str, int], Said]:
    """At every level a page of two hosts."""

    def answer(url: str, times: int) -> Said:
        number = int(url.rpartition("/")[2] or 0) + 1
        return page([f"http://{host}.example/{number}" for host in "ab"] if number < length else [])

    return answer


def test_rules_that_could_not_be_had_are_asked_for_at_the_next_levels(tmp_path: Path) -> None:
    world = World(tmp_path, within=["http://a.example/", "http://b.example/"], depth=20)
    away = {"http://b.example": lambda times: (503, b"") if times < 3 else (200, b"User-agent: *\nDisallow: /5")}
    hosts = Hosts(world.bench.clock, chain(9), away)
    world.crawl(hosts.run)
    known = world.known()
    assert [known[f"http://b.example/{number}"] for number in range(1, 9)] == [
        *["refused/robots_unavailable"] * 2,
        *["visited/page"] * 2,
        "refused/robots",
        *["visited/page"] * 3,
    ]
    assert [host for _, host in hosts.robots_asked].count("http://b.example") == 3


def test_rules_that_can_never_be_had_are_asked_for_a_few_times(tmp_path: Path) -> None:
    world = World(tmp_path, within=["http://a.example/", "http://b.example/"], depth=20)
    hosts = Hosts(world.bench.clock, chain(15), {"http://b.example": lambda times: (None, b"")})
    world.crawl(hosts.run)
    assert [host for _, host in hosts.robots_asked].count("http://b.example") == 5
    assert not hosts.times("http://b.example")


@pytest.mark.parametrize("later", [200, 503])
def test_rules_are_a_day_old_at_most_but_where_new_ones_cannot_be_had(later: int, tmp_path: Path) -> None:
    world = World(tmp_path, delay_seconds=3600)
    first, other = b"User-agent: *\nDisallow: /aa", b"User-agent: *\nDisallow: /a\nDisallow: /b"
    hosts = Hosts(world.bench.clock, tree(60), {ROOT: lambda times: (200, first) if times == 1 else (later, other)})
    world.crawl(hosts.run)
    asked = [at / 3600 for at, _ in hosts.robots_asked]
    if later == 200:
        assert asked == [0, pytest.approx(24, abs=1.1)]
        after = [url for at, url in hosts.asked if at > hosts.robots_asked[1][0]]
        assert after == [f"{ROOT}/c{letter}" for letter in "abcdefgh"]
    else:
        assert asked == [0, pytest.approx(24, abs=1.1), pytest.approx(48, abs=2.1)]
        assert len(hosts.asked) == 1 + 59
