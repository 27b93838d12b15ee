"""From an archive to document shards: read, extract, normalise, mask nothing, measure, digest, write.

Megabytes of HTML a second of one core, beside resiliparse alone, which parses and extracts the same records and does
nothing else; and how much faster two processes are than one, on the wall. The archive holds the standard library's
documentation (tools/exhibit.py), every page several times under a URL of its own, as answers in WARC, gzip a record.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from tools import exhibit

from benchmarks.pairs import alternate, median, timed
from benchmarks.program import ROOT, main, scratch
from benchmarks.table import Row, ratio_at_least
from tutti.ingest import shards
from tutti.ingest.crawl.archive import exchange
from tutti.ingest.crawl.fetching import Answer

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHARE, TIMES = ratio_at_least(0.7), ratio_at_least(1.8)


def measure(quick: bool) -> list[Row]:
    """Ours beside bare extraction on one core, then two processes beside one."""
    pages = exhibit.build(ROOT / "build" / "exhibit").folder
    with scratch("reading") as folder:
        archive, size = _archive(pages, Path(folder), copies=1 if quick else 4)
        alone = alternate(
            _core(lambda: _shards(archive, Path(folder), 1)), _core(lambda: _bare(archive)), pairs=3 if quick else 5
        )
        two = alternate(
            timed(lambda: _shards(archive, Path(folder), 2)),
            timed(lambda: _shards(archive, Path(folder), 1)),
            pairs=3 if quick else 5,
        )
    megabytes = size / 1e6
    return [
        Row(
            what="WARC to document shards",
            unit="MB/s of a core",
            ours=megabytes / median(alone.ours),
            peer=megabytes / median(alone.peer),
            ratio=alone.speed(),
            goal=SHARE,
            note=f"{megabytes:.0f} MB of HTML; peer: resiliparse alone, tree and main content",
        ),
        Row(
            what="the same in two processes",
            unit="MB/s on the wall",
            ours=megabytes / median(two.ours),
            peer=megabytes / median(two.peer),
            ratio=two.speed(),
            goal=TIMES,
            note="peer: one process",
        ),
    ]


def _core(work: Callable[[], object]) -> Callable[[], float]:
    return timed(work, time.process_time)


def _archive(pages: Path, folder: Path, *, copies: int) -> tuple[Path, int]:
    """An archive of answers, and how many bytes of HTML are in it."""
    path, size = folder / "pages.warc.gz", 0
    with path.open("wb") as file:
        for copy in range(copies):
            for page in sorted(pages.glob("*.html")):
                url, body = f"http://exhibit.test/{copy}/{page.name}", page.read_bytes()
                kind = (("Content-Type", "text/html; charset=utf-8"),)
                file.write(exchange(Answer(url, "HTTP/1.1", 200, "OK", kind, body), {}, AT))
                size += len(body)
    return path, size


def _shards(archive: Path, folder: Path, workers: int) -> None:
    shards.write_shards(shards.Reading(None, 50 << 20, 0, archives=(archive,)), folder, workers)


def _bare(archive: Path) -> None:
    with archive.open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            tree = HTMLTree.parse_from_bytes(record.reader.read(), "utf-8")
            extract_plain_text(tree, main_content=True, alt_texts=False)


if __name__ == "__main__":
    main("reading", __doc__, measure)
