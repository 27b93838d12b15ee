"""Announcements: what hosts say of themselves, their rules and their sitemaps, asked for.

Promises: what passes is tried again, as with pages; what could not be had has a reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tutti.ingest.crawl.asking import LONGEST_BACKOFF_SECONDS, Asking, Manner, Put, backoff
from tutti.ingest.crawl.fetching import Fetches, decoded
from tutti.ingest.crawl.pacing import Pace, Turn, retry_after
from tutti.ingest.crawl.robots import MAX_BYTES, MAX_REDIRECTS, has_rules, whole_lines
from tutti.ingest.crawl.sitemaps import MAX_BYTES as MAX_SITEMAP_BYTES
from tutti.ingest.crawl.sitemaps import BadSitemap, Sitemap, sitemap
from tutti.ingest.crawl.urls import NotAPage, canonical
from tutti.ingest.failures import FetchFailed

NONE_LISTED = Sitemap((), ())
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The last answer to GET /robots.txt of a host, redirects followed; `status` is None when there was none, for the
    `cause`. Of a large `body` a little more than is read.
    """

    host: str
    status: int | None
    body: bytes
    cause: str = ""


@dataclass(frozen=True, slots=True)
class SitemapAnswer:
    """The URLs in a sitemap, or its new location (`target`); `outcome` in words. `pace` is that of its host from then
    on.
    """

    listed: Sitemap
    outcome: str
    pace: Pace
    target: str = ""


def robots_all(hosts: Sequence[str], waits: Mapping[str, float], manner: Manner) -> list[RobotsAnswer]:
    """The robots.txt of each host, some of which are to be left alone for some seconds."""

    async def run() -> list[RobotsAnswer]:
        async with manner.fetcher(replace(manner.limits, max_bytes=10 * MAX_BYTES, cut=True)) as fetcher:
            return await asyncio.gather(*(_robots(host, waits.get(host, 0.0), fetcher, manner) for host in hosts))

    return asyncio.run(run())


def read_sitemap(url: str, pace: Pace, manner: Manner) -> SitemapAnswer:
    """The URLs in the sitemap at a canonical URL; empty if there is none, or if the response is not a sitemap."""

    async def run() -> SitemapAnswer:
        async with manner.fetcher(replace(manner.limits, max_bytes=MAX_SITEMAP_BYTES)) as fetcher:
            return await sitemap_at(fetcher, url, pace, manner)

    return asyncio.run(run())


async def sitemap_at(fetcher: Fetches, url: str, pace: Pace, manner: Manner) -> SitemapAnswer:
    """The same by a fetcher."""
    turn = Turn(pace, 1, manner.tries)
    came = await Asking(fetcher, manner, turn).ask(url)
    assert not isinstance(came, Put), "a sitemap has all the time"

    def told(outcome: str, listed: Sitemap = NONE_LISTED, target: str = "") -> SitemapAnswer:
        return SitemapAnswer(listed, outcome, turn.pace, target)

    tried = f" (asked {came.tries} times)" if came.tries > 1 else ""
    if (answer := came.answer) is None:
        return told(f"failed/{came.failure.value}{f': {came.detail}' if came.detail else ''}{tried}")
    try:
        if 300 <= answer.status < 400 and (place := answer.text("Location")):
            target = canonical(place, url)
            return told(f"redirect to {target}", target=target)
        if answer.status != 200:
            return told(f"not_ok/{answer.status}{tried}")
        listed = sitemap(url, decoded(answer, MAX_SITEMAP_BYTES))
    except NotAPage as error:
        return told(f"redirect/{error.fault.value}")
    except FetchFailed as error:
        return told(f"failed/{error}")
    except BadSitemap as error:
        return told(f"no sitemap, {error}")
    more = f" and {len(listed.sitemaps):,} sitemaps" if listed.sitemaps else ""
    return told(f"{len(listed.pages):,} URLs{more}", listed)


async def _robots(host: str, wait_seconds: float, fetcher: Fetches, manner: Manner) -> RobotsAnswer:
    """The answer; what passes is tried again."""
    await asyncio.sleep(wait_seconds)
    for tried in range(1, manner.tries):
        answer, wait = await _robots_once(host, fetcher)
        passing = answer.status is None or answer.status == 429 or answer.status >= 500
        if not passing or (wait is not None and wait > LONGEST_BACKOFF_SECONDS):
            return answer
        await asyncio.sleep(backoff(tried, manner) if wait is None else wait)
    return (await _robots_once(host, fetcher))[0]


async def _robots_once(host: str, fetcher: Fetches) -> tuple[RobotsAnswer, float | None]:
    """The answer, and the seconds after which it asks to be asked again."""
    url = f"{host}/robots.txt"
    for _ in range(MAX_REDIRECTS + 1):
        try:
            answer = await fetcher.fetch(url)
            if not 300 <= answer.status < 400:
                body = decoded(answer, MAX_BYTES + 1, cut=True) if has_rules(answer.status) else b""
                if not answer.whole and len(body) <= MAX_BYTES:  # it ends where the answer was cut
                    body = whole_lines(body)
                return RobotsAnswer(host, answer.status, body), retry_after(answer)
            place = answer.text("Location")
            if not place or (there := canonical(place, url)) == url:  # it leads nowhere: there are none
                return RobotsAnswer(host, answer.status, b""), None
            url = there
        except FetchFailed as error:
            return RobotsAnswer(host, None, b"", error.detail), None
        except NotAPage:
            break
        except MemoryError:
            raise
        except Exception as error:
            _log.exception("the rules at %s could not be fetched", url)
            return RobotsAnswer(host, None, b"", f"{type(error).__name__}: {error}"), None
    return RobotsAnswer(host, 404, b""), None
