"""What becomes of a page that is forbidden, broken, inside or another one by now: it has its reason."""

import gzip
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from tests.crawl.site import Answer, Site
from tests.crawl.site_test import Killed, World
from tutti.contracts.ingest.v1 import Crawl, ShowCrawlResponse
from tutti.ingest.crawl import robots
from tutti.ingest.crawl.asking import NEW
from tutti.ingest.crawl.causes import Causes
from tutti.ingest.crawl.crawling import MAX_SITEMAPS
from tutti.ingest.crawl.crawlstate import Standing
from tutti.ingest.crawl.fetcher import UNWANTED_BYTES
from tutti.ingest.crawl.fetching import Limits
from tutti.ingest.crawl.pacing import Pace
from tutti.ingest.crawl.visiting import Bounds, Outcome, Visit, visit_all
from tutti.ingest.crawls import nothing_visited
from tutti.ingest.reading.containers import RecordOptions
from tutti.ingest.reading.rejections import Reason, Rejection
from tutti.ingest.reading.warcrecords import read_crawled

NAMED = "http://site.test"


class Odd(Site):
    """A small site of which some paths answer as they are told."""

    def __init__(self) -> None:
        super().__init__(12)
        self.odd: dict[str, Answer] = {}

    def answer(self, path: str) -> Answer:
        return self.odd.get(path) or super().answer(path)


@pytest.fixture
def site() -> Iterator[Odd]:
    made = Odd()
    yield made
    made.close()


@pytest.fixture
def inside() -> Iterator[Odd]:
    """What a crawl of the public web must not see."""
    made = Odd()
    yield made
    made.close()


def named(world: World, site: Site, *prefixes: str) -> World:
    """The site is of the public web, by a name; what else is on this machine is not."""
    manner = replace(world.plan.manner, allow_private=False, connect={"site.test": site.root.removeprefix("http://")})
    scope = replace(world.plan.scope, prefixes=(f"{NAMED}/", *prefixes))
    world.plan, world.root = replace(world.plan, seeds=(f"{NAMED}/",), scope=scope, manner=manner), NAMED
    return world


def counts(world: World, host: str) -> dict[str, int]:
    return world.bench.units.run(lambda unit: world.frontier.counts_of_host(unit, "crawls/a", host))


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_of_a_large_picture_the_beginning_is_kept_which_others_read(coding: str, site: Odd, tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(4 << 20)
    headers = {"Content-Type": "image/png", **({"Content-Encoding": coding} if coding else {})}
    site.odd["/image"] = 200, headers, gzip.compress(noise, 0) if coding else noise
    world = World(tmp_path, site)
    world.plan = replace(world.plan, manner=replace(world.plan.manner, limits=Limits()))
    world.crawl()
    assert world.known()["/image"] == "visited/not_text"
    assert site.asked["/image"] == 1
    path = next(path for path in world.archives() if b"image/png" in gzip.decompress(path.read_bytes()))
    with path.open("rb") as file:
        for record in WarcioIterator(file, check_digests="raise"):
            body = record.raw_stream.read()
            if (
                record.rec_headers.get_header("WARC-Target-URI") == f"{site.root}/image"
                and record.rec_type == "response"
            ):
                assert record.rec_headers.get_header("WARC-Truncated") == "length"
                assert body == site.odd["/image"][2][:UNWANTED_BYTES]
    for found in ArchiveIterator(str(path), parse_http=False):
        assert found.verify_block_digest()
    read = [each for each in read_crawled(path, RecordOptions(1 << 20, "text"), {}) if isinstance(each, Rejection)]
    assert [(each.path, each.reason) for each in read if each.path.endswith("/image")] == [
        (f"{site.root}/image", Reason.BINARY)
    ]
    site.odd["/image"] = 200, headers, site.odd["/image"][2] + b"another end"
    world.crawl(name="crawls/b", since="crawls/a")
    assert world.bench.units.run(lambda unit: world.frontier.answers.find(unit, "crawls/b", [f"{site.root}/image"]))[
        f"{site.root}/image"
    ].archive in world.bench.units.run(lambda unit: world.frontier.archives(unit, "crawls/b"))


def test_a_content_type_that_is_none_is_told_without_what_a_terminal_would_obey(site: Odd, tmp_path: Path) -> None:
    site.odd["/image"] = 200, {"Content-Type": "image/\x1b[2J\x9bpng"}, b"x"
    world = World(tmp_path, site)
    world.crawl()
    assert counts(world, site.root)["visited/not_text/image/2jpng"] == 1


def test_a_redirect_into_a_machine_inside_leads_nowhere(site: Odd, inside: Odd, tmp_path: Path) -> None:
    site.odd["/page-aab"] = 302, {"Location": f"{inside.root}/secret"}, b""
    world = named(World(tmp_path, site), site, f"{inside.root}/")
    world.crawl()
    known = world.known()
    assert known["/"] == "visited/page"
    assert known["/page-aab"] == "visited/redirect"
    assert known[f"{inside.root}/secret"] == "refused/robots_unavailable"
    assert not inside.asked


def test_a_page_inside_fails_for_that_reason_even_where_its_rules_are_known(
    site: Odd, inside: Odd, tmp_path: Path
) -> None:
    world = named(World(tmp_path, site), site)
    urls = dict.fromkeys([f"{NAMED}/", f"{inside.root}/secret"], NEW)
    paces = {NAMED: Pace(), inside.root: Pace()}
    (there, secret), _ = visit_all(urls, paces, world.plan.manner, {}, Bounds())
    assert isinstance(there, Visit)
    assert isinstance(secret, Visit)
    assert there.outcome is Outcome.PAGE
    assert (secret.outcome, secret.reason, secret.tries) == (Outcome.FAILED, "private_address", 1)
    assert not inside.asked


def test_rules_that_lie_inside_cannot_be_had(site: Odd, inside: Odd, tmp_path: Path) -> None:
    site.odd["/robots.txt"] = 302, {"Location": f"{inside.root}/robots.txt"}, b""
    world = named(World(tmp_path, site), site)
    world.crawl()
    assert world.known() == {"/": "refused/robots_unavailable"}
    assert not inside.asked


LARGE = b"<p>" + b"words " * 200_000
PACKED = gzip.compress(LARGE[:10_000])


@pytest.mark.parametrize(
    ("coding", "body", "failure"),
    [
        ("gzip", gzip.compress(LARGE), "too_large"),
        ("gzip", PACKED[: len(PACKED) // 2], "cut"),
        ("gzip", PACKED[:-8], "cut"),
        ("deflate", b"no page", "encoding"),
        ("br", b"\x0b\x02\x80<p>words\x03", "encoding"),
    ],
    ids=["bomb", "half", "without its end", "rubbish", "not asked for"],
)
def test_a_page_that_is_of_no_use_is_in_no_archive_but_with_the_reason(
    coding: str, body: bytes, failure: str, site: Odd, tmp_path: Path
) -> None:
    site.odd["/page-aab"] = 200, {"Content-Type": "text/html", "Content-Encoding": coding}, body
    world = World(tmp_path, site)
    world.crawl()
    assert counts(world, site.root)[f"visited/failed/{failure}"] == 1
    url, read, told = f"{site.root}/page-aab", list[str](), list[tuple[str, str, bytes]]()
    for path in world.archives():
        read += [each.path for each in read_crawled(path, RecordOptions(10 * len(LARGE), "text"), {})]
        with path.open("rb") as file:
            told += [
                (each.rec_headers.get_header("WARC-Target-URI"), each.rec_type, each.content_stream().readline())
                for each in WarcioIterator(file, check_digests="raise")
            ]
    assert [each[1:] for each in told if each[0] == url] == [("metadata", f"failure: {failure}\r\n".encode())]
    assert f"{site.root}/" in read
    assert url not in read
    find = world.frontier.answers.find
    assert not world.bench.units.run(lambda unit: find(unit, "crawls/a", [url]))


@pytest.mark.parametrize(("status", "tries"), [(401, 1), (403, 1), (410, 1), (451, 1), (500, 3), (502, 3), (503, 3)])
def test_a_page_that_is_refused_or_broken_is_kept_as_that(status: int, tries: int, site: Odd, tmp_path: Path) -> None:
    site.odd["/page-aab"] = status, {"Content-Type": "text/html"}, b"<a href='/behind'>No.</a>"
    world = World(tmp_path, site)
    world.crawl()
    known = world.known()
    assert known["/page-aab"] == "visited/not_ok"
    assert counts(world, site.root)[f"visited/not_ok/{status}"] == 1
    assert site.asked["/page-aab"] == tries
    assert world.archived()["/page-aab"] == 1
    assert "/behind" not in known


def test_rules_that_do_not_come_in_time_allow_nothing(site: Odd, tmp_path: Path) -> None:
    site.silent.add("/robots.txt")
    world = World(tmp_path, site)
    manner = replace(world.plan.manner, limits=Limits(total_seconds=0.2), tries=1)
    world.plan = replace(world.plan, manner=manner)
    world.crawl()
    assert world.known() == {"/": "refused/robots_unavailable"}
    assert set(site.asked) == {"/robots.txt"}


def test_a_site_that_changes_while_it_is_crawled_is_as_it_was_when_each_page_was_asked_for(
    site: Odd, tmp_path: Path
) -> None:
    world = World(tmp_path, site)

    def killed(work: object, *arguments: object) -> object:
        if work is visit_all and "/page-aab" in world.known() and world.known()["/page-aab"] == "visited/page":
            raise Killed
        return work(*arguments)  # type: ignore[operator]

    with pytest.raises(Killed):
        world.crawl(killed)
    before = {path for path, what in world.known().items() if what.startswith("visited/")}
    waiting = next(path for path in site.numbers if path.startswith("/page") and path not in before)
    for path in (*before, waiting):
        site.odd[path] = 200, {"Content-Type": "text/html"}, b"<p>Other words.</p><a href='/came-later'>later</a>"
    asked = {path: site.asked[path] for path in before}
    world.crawl()
    assert {path: site.asked[path] for path in before} == asked
    assert world.known()["/came-later"] == "visited/page"
    assert set(world.archived().values()) == {1}
    bodies = dict(world.answers())
    assert b"Other words" in bodies[waiting]
    assert not [path for path in before if b"Other words" in bodies[path]]


def causes(world: World, *seeds: str) -> list[str]:
    return world.bench.units.run(lambda unit: Causes(world.frontier, "crawls/a").of_seeds(unit, seeds))


def begun(world: World, *seeds: str) -> World:
    world.plan = replace(world.plan, seeds=seeds, scope=replace(world.plan.scope, prefixes=seeds))
    return world


def test_why_a_crawl_brought_no_page_is_said_with_what_to_do(site: Odd, tmp_path: Path) -> None:
    seeds = "http://127.0.0.1:1/", "http://nosuch.invalid/", f"{site.root}/page-aab", f"{site.root}/page-aac"
    world = begun(World(tmp_path, site), *seeds)
    world.plan = replace(world.plan, manner=replace(world.plan.manner, delay_seconds=0.0, tries=2))
    site.odd["/page-aab"] = 301, {"Location": "https://elsewhere.invalid/"}, b""
    site.odd["/page-aac"] = 302, {"Location": "/page-aacd"}, b""
    site.odd["/page-aacd"] = 410, {}, b""
    world.crawl()
    told = causes(world, *seeds)
    assert told == [
        "http://127.0.0.1:1/: no robots.txt: connection refused by 127.0.0.1:1",
        "http://nosuch.invalid/: no robots.txt: no address for nosuch.invalid",
        f"{site.root}/page-aab leads to https://elsewhere.invalid/, which lies elsewhere: "
        "begin there, or name it in input.crawl.within",
        f"{site.root}/page-aac leads to {site.root}/page-aacd: visited/not_ok 410",
    ]
    assert all(each in nothing_visited({"visited/not_ok": 1}, told) for each in told)


def test_a_private_address_is_named_with_the_key_that_allows_it(site: Odd, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.plan = replace(world.plan, manner=replace(world.plan.manner, allow_private=False))
    world.crawl()
    cause = "no robots.txt: 127.0.0.1 is a private address: set input.crawl.allow_private=true"
    assert causes(world, f"{site.root}/") == [f"{site.root}/: {cause}"]
    known = world.bench.units.run(lambda unit: world.frontier.known(unit, "crawls/a"))
    found = world.bench.units.run(lambda unit: Causes(world.frontier, "crawls/a").of_pages(unit, known))
    assert found == {f"{site.root}/": cause}
    (host,) = standing(world).hosts
    assert f"no robots.txt: {host.cause}" == cause


def test_where_a_named_host_lies_is_in_no_cause(site: Odd, tmp_path: Path) -> None:
    world = named(World(tmp_path, site), site)
    world.plan = replace(world.plan, manner=replace(world.plan.manner, connect={"site.test": "127.0.0.1:1"}, tries=1))
    world.crawl()
    assert causes(world, f"{NAMED}/") == [f"{NAMED}/: no robots.txt: connection refused by site.test:80"]


def test_a_redirect_in_raw_utf_8_leads_where_it_says(site: Odd, tmp_path: Path) -> None:
    site.odd["/page-aab"] = 302, {"Location": "/caf\u00e9"}, b""
    world = World(tmp_path, site)
    world.crawl()
    assert world.known()["/caf%C3%A9"] == "visited/page"
    assert "/caf%C3%83%C2%A9" not in world.known()
    assert "Location: /caf\u00e9".encode() in dict(world.answers())["/page-aab"]


def test_sitemaps_are_asked_for_as_pages_are_and_what_came_of_each_is_told(site: Odd, tmp_path: Path) -> None:
    listed = ("moved", "busy", "gone", "page", "round", "away")
    lines = "".join(f"Sitemap: {site.root}/{each}.xml\n" for each in listed)
    site.odd["/robots.txt"] = 200, {"Content-Type": "text/plain"}, lines.encode()
    site.odd["/moved.xml"] = 301, {"Location": "/there.xml"}, b""
    site.odd["/there.xml"] = 200, {"Content-Type": "text/xml"}, f"<url><loc>{site.root}/from-there</loc></url>".encode()
    site.changed["/busy.xml"] = f"<url><loc>{site.root}/from-busy</loc></url>".encode()
    site.away.add("/busy.xml")
    site.odd["/gone.xml"] = 404, {}, b""
    site.odd["/page.xml"] = 200, {"Content-Type": "text/html"}, b"<html><p>No."
    site.odd["/round.xml"] = 301, {"Location": "/round.xml"}, b""
    site.odd["/away.xml"] = 503, {}, b""
    world = World(tmp_path, site)
    world.crawl()
    known = world.known()
    assert (known["/from-there"], known["/from-busy"]) == ("visited/page", "visited/page")
    told = {each.url.removeprefix(site.root): each.outcome for each in standing(world).sitemaps}
    assert {path: words.partition(" (")[0] for path, words in told.items()} == {
        "/moved.xml": f"redirect to {site.root}/there.xml",
        "/there.xml": "1 URLs",
        "/busy.xml": "1 URLs",
        "/gone.xml": "not_ok/404",
        "/page.xml": "no sitemap, it cannot be read",
        "/round.xml": f"redirect to {site.root}/round.xml",
        "/away.xml": "not_ok/503",
    }
    assert site.asked["/away.xml"] == 3


def test_a_sitemap_that_is_not_allowed_is_not_asked_for_wherever_it_is_named(
    site: Odd, inside: Odd, tmp_path: Path
) -> None:
    listed = f"{site.root}/private/listed.xml", f"{site.root}/moved.xml", f"{site.root}/index.xml", f"{site.root}/b.xml"
    rules = "User-agent: *\nDisallow: /private\n" + "".join(f"Sitemap: {each}\n" for each in listed)
    site.odd["/robots.txt"] = 200, {"Content-Type": "text/plain"}, rules.encode()
    site.odd["/moved.xml"] = 301, {"Location": "/private/there.xml"}, b""
    nested = f"{site.root}/private/nested.xml", f"{site.root}/open.xml"
    index = "".join(f"<sitemap><loc>{each}</loc></sitemap>" for each in nested)
    site.odd["/index.xml"] = 200, {"Content-Type": "text/xml"}, f"<sitemapindex>{index}</sitemapindex>".encode()
    site.odd["/open.xml"] = 200, {"Content-Type": "text/plain"}, f"{site.root}/from-open".encode()
    site.odd["/b.xml"] = 302, {"Location": f"{inside.root}/b.xml"}, b""
    inside.odd["/robots.txt"] = 503, {}, b""
    world = begun(World(tmp_path, site), f"{site.root}/", f"{inside.root}/")
    world.crawl()
    told = {each.url: each.outcome for each in standing(world).sitemaps if each.outcome.startswith("refused")}
    assert told == {
        f"{site.root}/private/listed.xml": "refused/robots",
        f"{site.root}/private/there.xml": "refused/robots",
        f"{site.root}/private/nested.xml": "refused/robots",
        f"{inside.root}/b.xml": "refused/robots_unavailable",
    }
    assert not [path for path in site.asked if path.startswith("/private")]
    assert set(inside.asked) == {"/robots.txt"}
    assert world.known()["/from-open"] == "visited/page"


@pytest.mark.parametrize(
    ("asked", "told"),
    [("Crawl-delay: 61", 61), ("Crawl-delay: 1e308", 86_400), (f"Request-rate: 1/{'9' * 400}", 86_400)],
)
def test_of_a_host_that_wants_too_long_a_pause_nothing_is_asked_for_but_its_rules(
    asked: str, told: float, site: Odd, tmp_path: Path
) -> None:
    rules = f"User-agent: *\n{asked}\nSitemap: {site.root}/a.xml\n"
    site.odd["/robots.txt"] = 200, {"Content-Type": "text/plain"}, rules.encode()
    world = World(tmp_path, site)
    world.crawl()
    found = standing(world)
    assert [each.outcome for each in found.sitemaps] == ["refused/robots_delay"]
    assert [each.delay_seconds for each in found.hosts] == [told]
    assert set(world.known().values()) == {"refused/robots_delay"}
    assert set(site.asked) == {"/robots.txt"}
    assert set(site.asked) == {"/robots.txt"}


def standing(world: World) -> ShowCrawlResponse:
    return Standing(world.bench, world.frontier, Crawl(name="crawls/a")).told(5, 5)


def test_of_an_index_no_sitemap_is_read_where_as_many_wait_as_are_read_at_most(site: Odd, tmp_path: Path) -> None:
    elsewhere = "".join(f"Sitemap: http://elsewhere.test/{number}.xml\n" for number in range(MAX_SITEMAPS + 1))
    rules = f"Sitemap: {site.root}/index.xml\n{elsewhere}"
    site.odd["/robots.txt"] = 200, {"Content-Type": "text/plain"}, rules.encode()
    index = "".join(f"<sitemap><loc>{site.root}/{each}.xml</loc></sitemap>" for each in "abc")
    site.odd["/index.xml"] = 200, {"Content-Type": "text/xml"}, f"<sitemapindex>{index}</sitemapindex>".encode()
    world = World(tmp_path, site)
    world.crawl()
    assert [each.outcome for each in standing(world).sitemaps] == ["0 URLs and 3 sitemaps"]


def test_the_rules_of_a_host_are_parsed_once_for_all_its_batches(
    site: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, parse = list[str](), robots.parse

    def counted(text: str, agent: str) -> robots.Robots:
        parsed.append(text)
        return parse(text, agent)

    monkeypatch.setattr(robots, "parse", counted)
    world = World(tmp_path, site)
    world.plan = replace(world.plan, batch=2)
    world.crawl()
    assert len(world.archives()) > 2
    assert len(parsed) == 1
