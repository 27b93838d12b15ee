"""Where a crawl stands, in words."""

from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING
from tutti.contracts.ingest.v1 import Crawl, CrawledHost, PageCount, ShowCrawlResponse
from tutti.ingest.commands.crawls import expected, host_row, lines, speed
from tutti.report.crawls import visited, waiting


def counts(**of: int) -> list[PageCount]:
    return [PageCount(what=what.replace("__", "/"), pages=pages) for what, pages in of.items()]


HOST = CrawledHost(
    host="https://docs.example",
    robots="rules",
    robots_status=200,
    delay_seconds=2,
    counts=counts(
        waiting=40, visited__page=9, visited__not_ok__429=2, visited__failed__time=3, refused__robots=1, left__trap=5
    ),
)
CRAWL = Crawl(
    name="crawls/a", state=STATE_RUNNING, counts=counts(found=3, visited__page=9, visited__failed=5, waiting=40)
)
STANDING = ShowCrawlResponse(crawl=CRAWL, level=2, hosts=[HOST], least_seconds=80, seconds=7)


def test_a_host_is_told_with_its_rules_its_delay_and_its_trouble() -> None:
    assert host_row(HOST) == {
        "host": "https://docs.example",
        "robots": "rules (200)",
        "delay": "2 s",
        "visited": 14,
        "waiting": 40,
        "trouble": "3 failed/time, 2 not_ok/429, 1 refused/robots",
    }


def test_what_a_crawl_waits_for_names_the_slowest_host() -> None:
    assert speed(STANDING) == 2
    assert expected(STANDING) == (
        "43 URLs, 2 links away from a seed and more; 80 s at least, as https://docs.example is asked every 2 s"
    )
    told = lines(STANDING)
    assert told[0] == "crawl      crawls/a  running"
    assert told[1] == "visited    14 URLs in 7 s, 2.0 a second"
    assert told[-1].startswith("waits for  43 URLs")


def test_what_was_visited_is_told_before_it_is_recorded() -> None:
    crawl = Crawl(state=STATE_RUNNING, counts=counts(found=3, visited__page=9, waiting=4))
    assert (visited(crawl), waiting(crawl)) == (9, 7)
    for done, seen in ((8, (9, 7)), (12, (12, 4)), (20, (20, 0))):
        crawl.progress.done = done
        assert (visited(crawl), waiting(crawl)) == seen


def test_a_crawl_that_has_ended_waits_for_nothing() -> None:
    done = ShowCrawlResponse(crawl=Crawl(name="crawls/a", state=STATE_DONE, counts=counts(visited__page=9)), seconds=3)
    assert [line.partition(" ")[0] for line in lines(done)] == ["crawl", "visited", "urls"]


def test_why_a_crawl_failed_is_told_on_one_line_that_no_terminal_obeys() -> None:
    failed = ShowCrawlResponse(crawl=Crawl(name="crawls/a", state=STATE_FAILED, reason="400,\n\x1b[2J"))
    assert lines(failed)[0] == "crawl      crawls/a  failed: 400,\\n\\x1b[2J"
