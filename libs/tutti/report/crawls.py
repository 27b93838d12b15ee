"""Progress of a crawl in URLs."""

from tutti.contracts.ingest.v1 import Crawl


def visited(crawl: Crawl) -> int:
    """URLs that were asked for, also those of which that is not recorded yet."""
    return max(_recorded(crawl), crawl.progress.done)


def waiting(crawl: Crawl) -> int:
    """URLs that are known and may still be asked for."""
    known = sum(each.pages for each in crawl.counts if each.what in ("waiting", "found"))
    return max(0, known - visited(crawl) + _recorded(crawl))


def _recorded(crawl: Crawl) -> int:
    return sum(each.pages for each in crawl.counts if each.what.startswith("visited/"))
