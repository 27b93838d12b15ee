"""The state of a crawl: its hosts, their rules and delays, and the next URLs.

Promises: only reads; a look is bounded by the hosts and URLs that are asked for, but for the counts of URLs.
"""

from collections.abc import Mapping

from tutti.chassis.service import Host
from tutti.contracts.ingest.v1 import Crawl, CrawledHost, PageCount, ReadSitemap, ShowCrawlResponse
from tutti.ingest.crawl.announcements import RobotsAnswer
from tutti.ingest.crawl.asking import AGENT
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawl.notes import About
from tutti.ingest.crawl.robots import robots

MOST_HOSTS = 1_000  # that are looked at, by name
MOST_SITEMAPS = 100


def counted(counts: Mapping[str, int]) -> list[PageCount]:
    return [PageCount(what=what, pages=pages) for what, pages in counts.items()]


def waiting(host: CrawledHost) -> int:
    """URLs of a host that are to be visited."""
    return sum(each.pages for each in host.counts if each.what == "waiting")


class Standing:
    def __init__(self, host: Host, frontier: Frontier, crawl: Crawl) -> None:
        self._host, self._frontier, self._crawl = host, frontier, crawl

    def told(self, most_hosts: int, most_urls: int) -> ShowCrawlResponse:
        """So many hosts, those with the most that waits first, and so many of the URLs that come next."""
        units, frontier, name = self._host.units, self._frontier, self._crawl.name
        answers, count = units.run(lambda unit: frontier.asked(unit, name, MOST_HOSTS))
        hosts = sorted(map(self._of_host, answers), key=lambda each: (-waiting(each), each.host))
        found = ShowCrawlResponse(crawl=self._crawl, hosts=hosts[:most_hosts], seconds=self._seconds())
        found.more_hosts = count - len(found.hosts)
        found.least_seconds = max((waiting(each) * each.delay_seconds for each in hosts), default=0.0)
        depth = units.run(lambda unit: frontier.depth(unit, name))
        if depth is not None:
            found.level = depth
            found.next.extend(units.run(lambda unit: frontier.coming(unit, name, depth, most_urls)))
        read = units.run(lambda unit: frontier.notes.first(unit, name, About.SITEMAP, MOST_SITEMAPS))
        found.sitemaps.extend(ReadSitemap(url=url, outcome=outcome) for url, outcome in read.items())
        return found

    def _of_host(self, answer: RobotsAnswer) -> CrawledHost:
        rules = robots(answer.status, answer.body, AGENT)
        units, frontier, name = self._host.units, self._frontier, self._crawl.name
        counts = units.run(lambda unit: frontier.counts_of_host(unit, name, answer.host))
        cause = units.run(lambda unit: frontier.notes.find(unit, name, About.RULES, [answer.host]))
        return CrawledHost(
            host=answer.host,
            robots=rules.access.value,
            robots_status=answer.status or 0,
            delay_seconds=max(rules.delay_seconds, self._crawl.spec.delay_seconds),
            counts=counted(counts),
            cause=cause.get(answer.host, ""),
        )

    def _seconds(self) -> float:
        crawl = self._crawl
        if not crawl.HasField("started_at"):
            return 0.0
        until = (
            crawl.ended_at.ToNanoseconds() / 1e9 if crawl.HasField("ended_at") else self._host.clock.now().timestamp()
        )
        return max(0.0, until - crawl.started_at.ToNanoseconds() / 1e9)
