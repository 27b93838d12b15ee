"""Crawling a site again, beginning with an earlier crawl: as if it were crawled afresh, for fewer bytes."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.checker import Checker

from tests.crawl.site import Site
from tests.crawl.site_test import Killed, World, dying
from tutti.ingest.crawl.responses import Saved
from tutti.ingest.crawl.visiting import visit_all
from tutti.ingest.reading import shards

PAGES = 60


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site(PAGES)
    yield made
    made.close()


def read(world: World, name: str, scratch: Path, *, earlier: bool = True) -> tuple[object, ...]:
    """What ingest makes of a crawl: names of the pages, of the documents, and what was left out."""
    scratch.mkdir(exist_ok=True)
    units, frontier, blobs = world.bench.units, world.frontier, world.bench.blobs
    kept, before = (
        units.run(lambda unit, find=find: find(unit, name))  # type: ignore[misc]
        for find in (frontier.archives, frontier.answers.elsewhere)
    )
    paths = [Path(blobs._path(key)) for key in (*kept, *before)]  # type: ignore[attr-defined]
    archives, others = tuple(paths[: len(kept)]), tuple(paths[len(kept) :] if earlier else ())
    written = shards.write_shards(shards.Reading(None, 1 << 20, 0, archives=archives, earlier=others), scratch)
    digests = tuple(shard.info.content_digest for shard in written.shards)
    return written.survey.input_digest, digests, written.documents, tuple(written.rejections.by_reason())


def site_digest(world: World, name: str) -> str:
    return world.bench.units.run(lambda unit: world.frontier.site_digest(unit, name))


def saved(world: World, name: str) -> Saved:
    return world.bench.units.run(lambda unit: world.frontier.answers.saved(unit, name))


def change(site: Site) -> None:
    """A page with another text, one that leads elsewhere, one that is gone, one that came."""
    pages = [path for path in site.numbers if path.startswith("/page")]
    site.changed[pages[0]] = b"<main><p>Another text.</p>" + site.links(site.below(pages[0]))
    site.changed[pages[1]] = b"<main><p>It leads elsewhere now.</p><a href='/came'>/came</a>"
    site.changed["/came"] = b"<main><p>It was not here before.</p>"


def test_again_is_as_afresh_for_fewer_bytes(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    assert saved(world, "crawls/a") == Saved()
    change(site)
    site.sent = 0
    world.crawl(name="crawls/b", since="crawls/a")
    again, site.sent = site.sent, 0
    world.crawl(name="crawls/fresh")
    assert world.known("crawls/b") == world.known("crawls/fresh") != world.known("crawls/a")
    assert site_digest(world, "crawls/b") == site_digest(world, "crawls/fresh") != site_digest(world, "crawls/a")
    fresh = read(world, "crawls/fresh", tmp_path / "fresh")
    assert read(world, "crawls/b", tmp_path / "b") == fresh != read(world, "crawls/a", tmp_path / "a")
    found = saved(world, "crawls/b")
    assert (found.not_modified > 20, found.identical > 10) == (True, True)
    assert again + found.nbytes == site.sent


def test_again_from_again_names_the_crawl_that_read_the_body(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    world.crawl(name="crawls/b", since="crawls/a")
    change(site)
    world.crawl(name="crawls/c", since="crawls/b")
    world.crawl(name="crawls/fresh")
    find = world.frontier.answers.elsewhere
    (first, third) = (
        world.bench.units.run(lambda unit, name=name: find(unit, name))  # type: ignore[misc]
        for name in ("crawls/b", "crawls/c")
    )
    assert set(third) <= set(first)
    assert read(world, "crawls/c", tmp_path / "c") == read(world, "crawls/fresh", tmp_path / "fresh")


def test_killed_anywhere_again_is_as_afresh(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    change(site)
    for last in (2, 3, 4):
        with pytest.raises(Killed):
            world.crawl(dying(last), "crawls/b", "crawls/a")
    world.crawl(name="crawls/b", since="crawls/a")
    world.crawl(name="crawls/fresh")
    assert read(world, "crawls/b", tmp_path / "b") == read(world, "crawls/fresh", tmp_path / "fresh")


def test_however_few_earlier_answers_a_batch_may_hold_again_is_as_afresh(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    change(site)
    world.crawl(name="crawls/fresh")
    held: list[int] = []

    def run(work: Callable[..., Any], *arguments: Any) -> Any:
        if work is visit_all and len(arguments[0]) > 1:
            held.append(sum(len(each.record) for each in arguments[3].values()))
        return work(*arguments)

    world.plan = replace(world.plan, batch_bytes=1_500)
    world.crawl(run, "crawls/b", "crawls/a")
    assert 700 < max(held) <= world.plan.batch_bytes
    assert read(world, "crawls/b", tmp_path / "b") == read(world, "crawls/fresh", tmp_path / "fresh")
    assert saved(world, "crawls/b").not_modified > 20


def test_what_is_gone_of_the_earlier_crawl_is_asked_for_whole(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    for key in world.bench.units.run(lambda unit: world.frontier.archives(unit, "crawls/a")):
        world.bench.blobs.delete(key)
    world.crawl(name="crawls/b", since="crawls/a")
    assert saved(world, "crawls/b") == Saved()
    world.crawl(name="crawls/c", since="crawls/nobody")
    assert read(world, "crawls/b", tmp_path / "b") == read(world, "crawls/c", tmp_path / "c")


def test_without_the_earlier_archives_pages_are_left_out_and_it_is_said(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    world.crawl(name="crawls/b", since="crawls/a")
    rejections = dict(read(world, "crawls/b", tmp_path / "b", earlier=False)[3])  # type: ignore[call-overload]
    found = saved(world, "crawls/b")
    assert rejections["damaged"] == found.not_modified + found.identical


def test_an_archive_begins_with_what_it_is_and_revisits_say_of_what(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    world.crawl(name="crawls/a")
    world.crawl(name="crawls/b", since="crawls/a")
    profiles = set()
    for key in world.bench.units.run(lambda unit: world.frontier.archives(unit, "crawls/b")):
        records = ArchiveIterator(world.bench.blobs._path(key), parse_http=False)  # type: ignore[attr-defined]
        kinds = [(each.headers["WARC-Type"], each.headers.get("WARC-Profile")) for each in records]
        assert kinds[0] == ("warcinfo", None)
        profiles |= {profile.rpartition("/")[2] for _, profile in kinds if profile}
    assert profiles == {"server-not-modified", "identical-payload-digest"}


def test_others_read_every_record_that_crawls_wrote(site: Site, tmp_path: Path) -> None:
    world = World(tmp_path, site)
    site.changed["/page-aab"] = b"<meta name=robots content=noindex>"
    world.crawl(name="crawls/a")
    change(site)
    world.crawl(name="crawls/b", since="crawls/a")
    kinds: Counter[str] = Counter()
    for path in world.archives():
        with path.open("rb") as file:
            for record in WarcioIterator(file, check_digests="raise"):
                record.content_stream().read()
                kinds[record.rec_type] += 1
    assert set(kinds) == {"warcinfo", "response", "request", "revisit", "metadata"}
    assert kinds["request"] == kinds["response"] + kinds["revisit"]
    assert kinds["warcinfo"] == len(world.archives())
    paths = list(map(str, world.archives()))
    checked = Checker(type("Command", (), {"inputs": paths, "verbose": False})())
    checked.process_all()
    assert not checked.exit_value
