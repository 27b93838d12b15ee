"""Visiting: a batch of pages, fetched politely; each comes back with its records for the archive and what it says.

Promises: one host is asked by no more connections, and no faster, than its manner allows; what passes (a host that is
busy or away) is tried again, as late as it asks for; every page of the batch has an outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from tutti.corpus.canonical import bytes_digest
from tutti.ingest.crawl import archive
from tutti.ingest.crawl.answers import Again, Earlier, Kept, form, freshened, kept
from tutti.ingest.crawl.archive import Place, metadata, payload_digest, request, response, revisit
from tutti.ingest.crawl.fetching import Answer, Failure, Fetcher, Fetches, FetchFailed, Limits, decoded
from tutti.ingest.crawl.links import Said, said
from tutti.ingest.crawl.pacing import HostBusy, Pace, Turn, retry_after
from tutti.ingest.crawl.robots import MAX_BYTES, MAX_REDIRECTS, whole_lines
from tutti.ingest.crawl.sitemaps import MAX_BYTES as MAX_SITEMAP_BYTES
from tutti.ingest.crawl.sitemaps import BadSitemap, Sitemap, sitemap
from tutti.ingest.crawl.urls import NotAPage, canonical, host_of
from tutti.ingest.sniffing import TEXTS

AGENT = "tutti"
PASSING = (Failure.TIME, Failure.CONNECTION, Failure.NAME, Failure.CUT)
LONGEST_BACKOFF_SECONDS = 60.0
_log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """What came of a visit."""

    PAGE = "page"
    NO_INDEX = "no_index"  # a page that asks not to be kept; its links are followed
    REDIRECT = "redirect"
    NOT_OK = "not_ok"  # a status that is no success
    NOT_TEXT = "not_text"  # by its content type
    FAILED = "failed"  # no answer that can be used


@dataclass(frozen=True, slots=True)
class Manner:
    """How a crawl behaves. `contact` is a URL or an address for those who are visited; `delay_seconds` between the
    beginnings of two visits to a host, at least; robots may ask for more. `connect`: where hosts lie, see Connect."""

    contact: str
    delay_seconds: float = 1.0
    connections_of_host: int = 1
    tries: int = 3
    limits: Limits = field(default_factory=Limits)
    allow_private: bool = False
    connect: Mapping[str, str] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The header User-Agent."""
        return f"{AGENT} (+{self.contact})"


@dataclass(frozen=True, slots=True)
class Visit:
    """`said` is empty but for a page, `target` but for a redirect that leads somewhere; `records` are WARC.

    `digest` is that of the body as it came, empty where there was none.
    """

    url: str
    outcome: Outcome
    status: int
    reason: str
    tries: int
    records: bytes
    said: Said = field(default_factory=Said)
    target: str = ""
    digest: str = ""
    again: Again = Again.READ
    kept: Kept | None = None
    """Of an answer whose body may be asked for again; without an archive where its record is the first of `records`."""

    @property
    def found(self) -> list[str]:
        """URLs that the page names: its links, and the one under which it wants to be known."""
        return [*self.said.links, *filter(None, [self.said.canonical])]


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The last answer to GET /robots.txt of a host, redirects followed; `status` is None when there was none. Of a
    large `body` a little more than is read.
    """

    host: str
    status: int | None
    body: bytes


def visit_all(
    urls: Sequence[str], paces: Mapping[str, Pace], manner: Manner, earlier: Mapping[str, Earlier]
) -> tuple[list[Visit], dict[str, Pace]]:
    """Visit canonical URLs, in any order; the outcomes are in theirs, beside how each host is to be asked from then on.

    What an `earlier` crawl kept of a URL is asked for only if it has changed.
    """

    async def run() -> tuple[list[Visit], dict[str, Pace]]:
        async with _fetcher(manner, manner.limits) as fetcher:
            return await visits(fetcher, urls, paces, manner, earlier)

    return asyncio.run(run())


async def visits(
    fetcher: Fetches,
    urls: Sequence[str],
    paces: Mapping[str, Pace],
    manner: Manner,
    earlier: Mapping[str, Earlier],
) -> tuple[list[Visit], dict[str, Pace]]:
    """The same by a fetcher."""
    turns = {host: Turn(paces[host], manner.connections_of_host, manner.tries) for host in map(host_of, urls)}
    found = await asyncio.gather(*(_visit(url, turns[host_of(url)], fetcher, manner, earlier.get(url)) for url in urls))
    return found, {host: turn.pace for host, turn in turns.items()}


def robots_all(hosts: Sequence[str], waits: Mapping[str, float], manner: Manner) -> list[RobotsAnswer]:
    """The robots.txt of each host, some of which are to be left alone for some seconds."""

    async def run() -> list[RobotsAnswer]:
        async with _fetcher(manner, replace(manner.limits, max_bytes=10 * MAX_BYTES, cut=True)) as fetcher:
            return await asyncio.gather(*(_robots(host, waits.get(host, 0.0), fetcher, manner) for host in hosts))

    return asyncio.run(run())


def read_sitemap(url: str, pace: Pace, manner: Manner) -> Sitemap:
    """What the sitemap at a canonical URL lists; nothing where there is none, or what is there is none."""

    async def run() -> Sitemap:
        await asyncio.sleep(pace.wait_seconds)
        async with _fetcher(manner, replace(manner.limits, max_bytes=MAX_SITEMAP_BYTES)) as fetcher:
            answer = await fetcher.fetch(url)
        if answer.status != 200:
            return Sitemap((), ())
        return sitemap(url, decoded(answer, MAX_SITEMAP_BYTES))

    try:
        return asyncio.run(run())
    except (FetchFailed, BadSitemap):
        return Sitemap((), ())


def _fetcher(manner: Manner, limits: Limits) -> Fetcher:
    return Fetcher(manner.agent, limits, allow_private=manner.allow_private, connect=manner.connect)


async def _robots(host: str, wait_seconds: float, fetcher: Fetches, manner: Manner) -> RobotsAnswer:
    """The answer; what passes is tried again."""
    await asyncio.sleep(wait_seconds)
    for tried in range(1, manner.tries):
        answer, wait = await _robots_once(host, fetcher)
        passing = answer.status is None or answer.status == 429 or answer.status >= 500
        if not passing or (wait is not None and wait > LONGEST_BACKOFF_SECONDS):
            return answer
        await asyncio.sleep(_backoff(tried, manner) if wait is None else wait)
    return (await _robots_once(host, fetcher))[0]


async def _robots_once(host: str, fetcher: Fetches) -> tuple[RobotsAnswer, float | None]:
    """The answer, and the seconds after which it asks to be asked again."""
    url = f"{host}/robots.txt"
    for _ in range(MAX_REDIRECTS + 1):
        try:
            answer = await fetcher.fetch(url)
            if not 300 <= answer.status < 400:
                body = decoded(answer, MAX_BYTES + 1, cut=True)
                if not answer.whole and len(body) <= MAX_BYTES:  # it ends where the answer was cut
                    body = whole_lines(body)
                return RobotsAnswer(host, answer.status, body), retry_after(answer)
            url = canonical(answer.header("Location"), url)
        except FetchFailed:
            return RobotsAnswer(host, None, b""), None
        except NotAPage:
            break
        except MemoryError:
            raise
        except Exception:
            _log.exception("the rules at %s could not be had", url)
            return RobotsAnswer(host, None, b""), None
    return RobotsAnswer(host, 404, b""), None


async def _visit(url: str, turn: Turn, fetcher: Fetches, manner: Manner, earlier: Earlier | None) -> Visit:
    """A visit that fails for a reason of which nobody thought is one that failed: others go on."""
    try:
        return await _tried(url, turn, fetcher, manner, earlier)
    except MemoryError:
        raise
    except Exception as error:
        _log.exception("the visit of %s failed", url)
        return _failed(url, Failure.UNEXPECTED, 1, f"{type(error).__name__}: {error}")


async def _tried(url: str, turn: Turn, fetcher: Fetches, manner: Manner, earlier: Earlier | None) -> Visit:
    for tried in range(1, manner.tries + 1):
        last = tried == manner.tries
        try:
            async with turn as held:
                before = earlier.answer() if earlier else None
                asked = earlier.kept.conditions if earlier and before else {}
                answer = await fetcher.fetch(url, asked)
                wait = _wait(answer, tried, manner)
                if wait is None:
                    turn.answered()
                else:
                    turn.hold(wait, held)
        except HostBusy:
            return _failed(url, Failure.BUSY, tried - 1)
        except FetchFailed as error:
            if error.failure in PASSING and not last:
                await asyncio.sleep(_backoff(tried, manner))
                continue
            return _failed(url, error.failure, tried)
        if (answer.status == 429 or answer.status >= 500) and not last and not turn.over:
            if wait is None:
                await asyncio.sleep(_backoff(tried, manner))
            continue
        busy = wait is not None and turn.over
        return _answered(_Exchange(asked, answer, earlier, before), tried, manner, busy=busy)
    raise AssertionError("a page has at least one try")


def _wait(answer: Answer, tried: int, manner: Manner) -> float | None:
    """Seconds for which an answer asks that the whole host be left alone, if it does."""
    if answer.status not in (429, 503):
        return None
    wait = retry_after(answer)
    return _backoff(tried, manner) if wait is None and answer.status == 429 else wait


def _backoff(tried: int, manner: Manner) -> float:
    return min(max(manner.delay_seconds, 0.1) * float(2**tried), LONGEST_BACKOFF_SECONDS)


def _failed(url: str, failure: Failure, tries: int, detail: str = "") -> Visit:
    at = datetime.now(UTC)
    told = {"detail": detail.encode("unicode_escape").decode()[:300]} if detail else {}
    record = metadata(url, at, {"failure": failure.value, "tries": str(tries), **told})
    return Visit(url, Outcome.FAILED, 0, failure.value, tries, record)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """What was asked and came; `before` is the earlier answer, whole, where it was asked for a change alone."""

    asked: Mapping[str, str]
    came: Answer
    earlier: Earlier | None
    before: Answer | None

    @property
    def answer(self) -> Answer:
        """What is to be read: the earlier answer where it was not modified."""
        return freshened(self.before, self.came) if self.again is Again.NOT_MODIFIED and self.before else self.came

    @property
    def again(self) -> Again:
        if self.came.status == 304 and self.before is not None:
            return Again.NOT_MODIFIED
        if self.earlier is None or self.came.status != 200:
            return Again.READ
        same = (bytes_digest(self.came.body), form(self.came)) == (self.earlier.kept.digest, self.earlier.kept.form)
        return Again.IDENTICAL if same else Again.READ

    def records(self, manner: Manner, at: datetime) -> tuple[bytes, Kept | None]:
        """For the archive; and what is kept of an answer of success."""
        asked, answer, again = {"User-Agent": manner.agent, **self.asked}, self.answer, self.again
        if again is Again.READ or self.earlier is None:
            record = response(self.came, at)
            known = kept(self.came, len(record), at.isoformat()) if self.came.status == 200 else None
            return record + request(self.came.url, asked, at), known
        held = self.earlier.kept
        file = held.archive.rpartition("/")[2]
        place = Place(datetime.fromisoformat(held.at), file, held.offset, payload_digest(answer.body))
        profile = archive.NOT_MODIFIED if again is Again.NOT_MODIFIED else archive.IDENTICAL
        record = revisit(self.came, at, place, profile)
        now = kept(answer, held.size, held.at)
        known = replace(now, archive=held.archive, offset=held.offset)
        return record + request(self.came.url, asked, at, kind="revisit"), known


def _answered(exchange: _Exchange, tries: int, manner: Manner, *, busy: bool = False) -> Visit:
    at, answer = datetime.now(UTC), exchange.answer
    url = answer.url
    records, known = exchange.records(manner, at)

    def made(outcome: Outcome, reason: str = "", **more: object) -> Visit:
        beside = {"digest": bytes_digest(answer.body), "again": exchange.again, "kept": known, **more}
        return Visit(url, outcome, answer.status, reason, tries, records, **beside)  # type: ignore[arg-type]

    if 300 <= answer.status < 400 and answer.header("Location"):
        try:
            return made(Outcome.REDIRECT, target=canonical(answer.header("Location"), url))
        except NotAPage as error:
            return made(Outcome.REDIRECT, error.fault.value)
    if answer.status != 200:
        return made(Outcome.NOT_OK, f"{answer.status}/{Failure.BUSY.value}" if busy else str(answer.status))
    kind, _, parameters = answer.header("Content-Type").partition(";")
    if kind.strip().lower() not in TEXTS:
        return made(Outcome.NOT_TEXT, kind.strip().lower()[:100])
    try:
        body = decoded(answer, manner.limits.max_bytes)
    except FetchFailed as error:
        return made(Outcome.FAILED, error.failure.value)
    charset = parameters.lower().partition("charset=")[2].partition(";")[0].strip(" \"'")
    header = ",".join(value for key, value in answer.headers if key.lower() == "x-robots-tag")
    words = said(url, body, agent=AGENT, kind=kind.strip().lower(), charset=charset, header=header)
    if not words.index:
        records = metadata(url, at, {"outcome": Outcome.NO_INDEX.value})
        return made(Outcome.NO_INDEX, said=words, again=Again.READ, kept=None)
    return made(Outcome.PAGE, said=words)
