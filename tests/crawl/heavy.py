"""What heavy answers take of memory: pages of megabytes each, or a sitemap that is nothing but elements.

Run as `python -m tests.crawl.heavy FOLDER pages ROOT` or `FOLDER sitemap -`: prints how many megabytes more were
resident at most than after a light one, and what came of it, as JSON.
"""

import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.resident import peak_megabytes

from tests.corpora.peak import forget_peak
from tests.crawl.known import OnDisk
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.contracts.ingest.v1 import CrawlSpec
from tutti.ingest.crawl.crawling import Crawling
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawl.sitemaps import sitemap
from tutti.ingest.crawls import plan_of

BATCH_BYTES = 4 << 20
ELEMENTS = (48 << 20) // len(b"<a/>")


def crawl(folder: Path, url: str) -> dict[str, int]:
    """What became of the URLs."""
    folder.mkdir()
    bench = OnDisk(EmbeddedBlobs(folder / "blobs"), service=str(folder / "ingest.db"))
    frontier = Frontier(bench.metadata)
    bench.database.create(bench.metadata)
    spec = CrawlSpec(
        seeds=[url], contact="me@a.example", depth=1, allow_private=True, connections=4, skip_sitemaps=True
    )
    plan = replace(plan_of(spec), batch_bytes=BATCH_BYTES)
    with closing(bench.database):
        Crawling(bench, frontier, "crawls/a", plan).run(lambda work, *given: work(*given), lambda: None)
        return bench.units.run(lambda unit: frontier.counts(unit, "crawls/a"))


def listed(elements: int) -> dict[str, int]:
    data = b"<urlset>" + b"<a/>" * elements + b"<url><loc>http://a.example/x</loc></url></urlset>"
    return {"bytes": len(data), "pages": len(sitemap("http://a.example/", data).pages)}


def main(folder: Path, what: str, root: str) -> None:
    light: Any = (lambda: crawl(folder / "light", f"{root}/light")) if what == "pages" else (lambda: listed(9))
    heavy: Any = (lambda: crawl(folder / "heavy", f"{root}/")) if what == "pages" else (lambda: listed(ELEMENTS))
    light()
    forget_peak()
    before = peak_megabytes()
    found = heavy()
    json.dump({"megabytes": peak_megabytes() - before, "found": found}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
