"""SIGKILL of every process of a platform that crawls the generated site, again and again: what can be reached and is
allowed is fetched, each answer stands once in the archives, and only what was not recorded yet is asked for again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from tests.crawl.lives import ROBOTS, ROOT, Holding, Life, Whole, crawl, holding, moments, spec_of
from tests.crawl.site import reachable
from tests.scale import scale
from tutti.corpus.documents.stages import CrawlBody
from tutti.ingest.crawls import plan_of
from tutti.records.manifest import Kind, Manifest

pytestmark = pytest.mark.timeout(1200)
BUSY = "/busy"
"""Asked for twice, as it asks for itself."""


@dataclass(frozen=True)
class Made:
    """A site that was crawled without a kill and with some, each time by itself."""

    calm_site: Holding
    calm: Whole
    site: Holding
    lives: list[Life]
    whole: Whole
    data_dir: Path

    @property
    def batch(self) -> int:
        """Pages that are recorded together, at most."""
        return plan_of(spec_of(self.site)).batch

    @property
    def archives(self) -> tuple[str, ...]:
        """Those that the manifest names."""
        manifest = (self.data_dir / "blobs" / self.whole.crawl.result.manifest_key).read_bytes()
        return CrawlBody.read(Manifest.decode(manifest, expected=Kind.CRAWL)).archives

    def paths(self) -> Iterator[Path]:
        return (self.data_dir / "blobs" / key for key in self.archives)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    pages, kills = scale(test=300, soak=5_000), scale(test=3, soak=10)
    folders = tmp_path_factory.mktemp("calm") / "data", tmp_path_factory.mktemp("killed") / "data"
    with holding(pages) as calm_site, holding(pages) as site:
        _, calm = crawl(folders[0], calm_site)
        chain = moments(kills, len(calm_site.asked))
        lives, whole = crawl(folders[1], site, chain)
        for moment, life in zip(chain, lives, strict=True):
            print(f"moment {moment}: {len(life.recorded)} recorded, {len(life.lost)} lost, {len(life.stray)} stray")
        yield Made(calm_site, calm, site, lives, whole, folders[1])


def test_what_is_fetched_is_what_can_be_reached_and_is_allowed(made: Made) -> None:
    known, pages = made.whole.known, reachable(made.site.pages)
    assert {path: known[path][:2] for path in pages} == {
        path: ("visited/not_ok", 404) if path.startswith("/broken") else ("visited/page", 200) for path in pages
    }
    others = ("/r/", "/round", BUSY, "/image", "/calendar")
    assert [path for path in made.whole.visited - pages if not path.startswith(others)] == []
    assert known["/private/a"][0] == "refused/robots"
    assert made.site.asked.keys() == {ROBOTS, *made.whole.visited}


def test_each_url_came_to_what_it_comes_to_when_nobody_kills(made: Made) -> None:
    assert made.whole.known == made.calm.known
    assert made.whole.crawl.site_digest == made.calm.crawl.site_digest
    assert list(made.whole.crawl.counts) == list(made.calm.crawl.counts)


def test_what_was_recorded_stays_and_is_not_asked_for_again(made: Made) -> None:
    asked = made.site.asked - sum((life.asked for life in made.lives), Counter())
    last = Life(asked, dict.fromkeys(made.whole.visited, ""), set())
    before: dict[str, str] = {}
    for life in (*made.lives, last):
        assert before.keys() <= life.recorded.keys()
        assert life.asked.keys().isdisjoint(before)
        assert {path: count for path, count in life.asked.items() if count > 1 and path != BUSY} == {}
        before = life.recorded
    assert made.site.asked[ROBOTS] == 1


def test_at_most_a_batch_is_lost_by_a_kill(made: Made) -> None:
    for life in made.lives:
        assert len(life.lost) <= made.batch
    again = made.site.asked - made.calm_site.asked
    assert 0 < again.total() <= sum(len(life.lost) for life in made.lives)


def test_every_answer_stands_once_in_the_archives_as_it_came(made: Made) -> None:
    found: dict[str, bytes] = {}
    kinds: Counter[str] = Counter()
    for path in made.paths():
        for record in ArchiveIterator(str(path), parse_http=False):
            assert record.verify_block_digest()
            kinds[record.headers["WARC-Type"]] += 1
            if record.headers["WARC-Type"] == "response":
                url = record.headers["WARC-Target-URI"].removeprefix(ROOT)
                assert url not in found
                found[url] = record.reader.read().partition(b"\r\n\r\n")[2]
    assert found == {path: made.site.answer(path)[2] for path in made.whole.visited}
    assert kinds == {"warcinfo": len(made.archives), "response": len(found), "request": len(found)}


def test_another_reader_finds_the_same_records(made: Made) -> None:
    for path in made.paths():
        ours = [record.record_id for record in ArchiveIterator(str(path), parse_http=False)]
        theirs = []
        with path.open("rb") as file:
            for record in WarcioIterator(file, check_digests="raise"):
                record.raw_stream.read()
                theirs.append(record.rec_headers.get_header("WARC-Record-ID"))
        assert theirs == ours
