"""What a crawl takes of memory that knows many URLs, none of which is like another.

Run as `python -m tests.crawl.known FOLDER COUNT all|few`: prints how many are known and how many megabytes more were
resident at most than after a crawl that knew few, as JSON. All of them are to be visited, or few and the others left.
"""

import json
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.resident import peak_megabytes

from tests.corpora.peak import forget_peak
from tests.crawl.site_test import Killed
from tests.crawl.virtual import Headers, Hosts, page
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.store.unit import Units
from tutti.chassis.tasks_test import Bench
from tutti.contracts.ingest.v1 import CrawlSpec
from tutti.ingest.crawl.crawling import Crawling
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawl.visiting import visit_all
from tutti.ingest.crawls import plan_of

LINKS, BATCH = 100, 20
"""Of a page; pages that are visited together, whose links memory holds."""
FEW = 2_000


class OnDisk(Bench):
    """With its database in a file, as services have theirs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.database.close()
        self.database = EmbeddedDatabase(Path(self.service), clock=self.clock, inline=True)
        self.units = Units(self.database, "ingest", self.metadata, clock=self.clock, randomness=self.randomness)


def letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(5))


def site(pages: int) -> Callable[[str, int], tuple[int, Headers, bytes]]:
    """A page that links to others, so many, each of which links to LINKS that nobody else links to."""

    def answer(url: str, _: int) -> tuple[int, Headers, bytes]:
        name = url.rpartition("/")[2]
        if not name:
            return page([f"/{letters(number)}" for number in range(pages)])
        return page([f"/{name}/{letters(number)}" for number in range(LINKS)]) if url.count("/") == 3 else page([])

    return answer


def crawl(folder: Path, count: int, most: int) -> int:
    """To its end, or until the first batch of the second level was visited; how many URLs are known."""
    bench = OnDisk(EmbeddedBlobs(folder / "blobs"), service=str(folder / "ingest.db"))
    frontier = Frontier(bench.metadata)
    bench.database.create(bench.metadata)
    hosts = Hosts(bench.clock, site(count // LINKS))
    root = "http://a.example/"
    spec = CrawlSpec(seeds=[root], contact="me@a.example", depth=3, pages=most, skip_sitemaps=True)
    plan = replace(plan_of(spec), batch=BATCH)

    def run(work: Callable[..., Any], *arguments: Any) -> Any:
        found = hosts.run(work, *arguments)
        if work is visit_all and next(iter(arguments[0])).count("/") > 3:
            raise Killed
        return found

    with closing(bench.database):
        with suppress(Killed):
            Crawling(bench, frontier, "crawls/a", plan).run(run, lambda: None)
        return sum(bench.units.run(lambda unit: frontier.counts(unit, "crawls/a")).values())


def main(folder: Path, count: int, visited: str) -> None:
    for name in ("few", "many"):
        (folder / name).mkdir()
    crawl(folder / "few", FEW, 2 * FEW)
    forget_peak()
    before = peak_megabytes()
    known = crawl(folder / "many", count, 2 * count if visited == "all" else 1 + count // LINKS)
    json.dump({"known": known, "megabytes": peak_megabytes() - before}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
