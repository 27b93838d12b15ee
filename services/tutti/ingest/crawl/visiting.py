"""Visiting: a batch of pages, fetched politely; each comes back with its records for the archive and what it says.

Promises: each page has an outcome, or is put off: what a batch holds, and how long it takes, is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from tutti.chassis.progress import say
from tutti.ingest.crawl import archive
from tutti.ingest.crawl.archive import Place, metadata, payload_digest, request, response, revisit
from tutti.ingest.crawl.asking import AGENT, Asking, Manner, Put
from tutti.ingest.crawl.fetching import HELD_BYTES, Answer, Fetches, decoded
from tutti.ingest.crawl.links import PageLinks, said
from tutti.ingest.crawl.pacing import Pace, Turn
from tutti.ingest.crawl.responses import Again, Earlier, StoredResponse, form, freshened, kept
from tutti.ingest.crawl.urls import NotAPage, canonical, host_of
from tutti.ingest.encoding.sniffing import TEXTS, shown_type
from tutti.ingest.failures import Failure, FetchFailed
from tutti.records.canonical import bytes_digest

_OF_A_URL = 100
"""Bytes that a URL takes beside its characters."""
_log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """The outcome of a visit."""

    PAGE = "page"
    NO_INDEX = "no_index"  # a page that asks not to be kept; its links are followed
    REDIRECT = "redirect"
    NOT_OK = "not_ok"  # a status that is no success
    NOT_TEXT = "not_text"  # by its content type
    FAILED = "failed"  # no answer that can be used


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
    said: PageLinks = field(default_factory=PageLinks)
    target: str = ""
    digest: str = ""
    detail: str = ""
    """In words, why it failed."""
    again: Again = Again.READ
    kept: StoredResponse | None = None
    """An answer whose body may be requested again; without an archive if its record is the first of `records`."""

    @property
    def found(self) -> list[str]:
        """URLs that the page names: its links, and the one under which it wants to be known."""
        return [*self.said.links, *filter(None, [self.said.canonical])]


@dataclass(frozen=True, slots=True)
class Bounds:
    """No question is put so many `seconds` after the first can be, nor once what came takes `nbytes`; what was asked is
    waited for. `before`: how many URLs the crawl had visited, for those who want to know how far it is.
    """

    seconds: float = math.inf
    nbytes: int = HELD_BYTES
    before: int = 0


def visit_all(
    pages: Mapping[str, Put],
    paces: Mapping[str, Pace],
    manner: Manner,
    earlier: Mapping[str, Earlier],
    bounds: Bounds,
) -> tuple[list[Visit | Put], dict[str, Pace]]:
    """Visit canonical URLs, some of which were put off before, in any order; the outcomes are in theirs, beside how
    each host is to be asked from then on.

    At least one question is put; pages that are not done are put off. What an `earlier` crawl kept of a URL is asked
    for only if it has changed.
    """

    async def run() -> tuple[list[Visit | Put], dict[str, Pace]]:
        async with manner.fetcher(manner.limits, wanted=TEXTS) as fetcher:
            return await visits(fetcher, pages, paces, manner, earlier, bounds)

    return asyncio.run(run())


async def visits(
    fetcher: Fetches,
    pages: Mapping[str, Put],
    paces: Mapping[str, Pace],
    manner: Manner,
    earlier: Mapping[str, Earlier],
    bounds: Bounds,
) -> tuple[list[Visit | Put], dict[str, Pace]]:
    """The same by a fetcher."""
    turns = {host: Turn(paces[host], manner.connections_of_host, manner.tries) for host in map(host_of, pages)}
    first = min(max(paces[host_of(url)].wait_seconds, put.wait_seconds) for url, put in pages.items())
    batch = _Batch(bounds, first)
    found = await asyncio.gather(
        *(
            _visit(url, put, Asking(fetcher, manner, turns[host_of(url)], batch.begins), earlier.get(url), batch)
            for url, put in pages.items()
        )
    )
    return found, {host: turn.pace for host, turn in turns.items()}


class _Batch:
    """The time limit of a batch: requests may start within so many seconds of the first."""

    def __init__(self, bounds: Bounds, first: float) -> None:
        self._bounds, self._loop = bounds, asyncio.get_running_loop()
        self._until = self._loop.time() + first + bounds.seconds
        self._held = self._visited = 0
        self.asked = False

    def begins(self, at: float) -> bool:
        """True if a request may start at a time of the loop; the first always may."""
        if not self.asked and at <= self._loop.time():
            return True
        return at <= self._until and self._held < self._bounds.nbytes

    def keep(self, visit: Visit) -> None:
        """Count what it holds."""
        self._held += len(visit.records) + sum(len(url) + _OF_A_URL for url in visit.found)
        self._visited += 1
        say(self._bounds.before + self._visited, unit="URLs")


async def _visit(url: str, put: Put, asking: Asking, earlier: Earlier | None, batch: _Batch) -> Visit | Put:
    """A defect that a page brings to light is its failure: others go on."""

    def headers() -> Mapping[str, str]:
        batch.asked = True
        # The earlier answer is not held while the page is asked for.
        return earlier.kept.conditions if earlier and earlier.answer() else {}

    try:
        came = await asking.ask(url, headers, put)
        if isinstance(came, Put):
            return came
        if came.answer is None:
            visit = _failed(url, came.failure, came.tries, came.detail)
        else:
            before = earlier.answer() if earlier and came.asked and came.answer.status == 304 else None
            exchange = _Exchange(came.asked, came.answer, earlier, before)
            visit = _answered(exchange, came.tries, asking.manner, busy=came.busy)
    except MemoryError:
        raise
    except Exception as error:
        _log.exception("the visit of %s failed", url)
        visit = _failed(url, Failure.UNEXPECTED, 1, f"{type(error).__name__}: {error}")
    batch.keep(visit)
    return visit


def _failed(url: str, failure: Failure, tries: int, detail: str = "") -> Visit:
    record = _failure(url, datetime.now(UTC), failure, tries, detail)
    return Visit(url, Outcome.FAILED, 0, failure.value, tries, record, detail=detail)


def _failure(url: str, at: datetime, failure: Failure, tries: int, detail: str) -> bytes:
    """The record of a failure: an answer of no use is not kept, lest those who read the archive make a page of it."""
    told = {"detail": detail.encode("unicode_escape").decode()[:300]} if detail else {}
    return metadata(url, at, {"failure": failure.value, "tries": str(tries), **told})


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A request and its answer; `before` is the complete earlier answer of a conditional request."""

    asked: Mapping[str, str]
    came: Answer
    earlier: Earlier | None
    before: Answer | None

    @property
    def answer(self) -> Answer:
        """The answer to read: the earlier one if it was not modified."""
        return freshened(self.before, self.came) if self.again is Again.NOT_MODIFIED and self.before else self.came

    @property
    def again(self) -> Again:
        if self.came.status == 304 and self.before is not None:
            return Again.NOT_MODIFIED
        if self.earlier is None or self.came.status != 200 or not self.came.whole:
            return Again.READ
        same = (bytes_digest(self.came.body), form(self.came)) == (self.earlier.kept.digest, self.earlier.kept.form)
        return Again.IDENTICAL if same else Again.READ

    def records(self, manner: Manner, at: datetime) -> tuple[bytes, StoredResponse | None]:
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

    if 300 <= answer.status < 400 and (place := answer.text("Location")):
        try:
            return made(Outcome.REDIRECT, target=canonical(place, url))
        except NotAPage as error:
            return made(Outcome.REDIRECT, error.fault.value)
    if answer.status != 200:
        return made(Outcome.NOT_OK, f"{answer.status}/{Failure.BUSY.value}" if busy else str(answer.status))
    kind, _, parameters = answer.header("Content-Type").partition(";")
    if kind.strip().lower() not in TEXTS:
        return made(Outcome.NOT_TEXT, shown_type(kind))
    try:
        body = decoded(answer, manner.limits.max_bytes)
    except FetchFailed as error:
        records = _failure(url, at, error.failure, tries, error.detail)
        return made(Outcome.FAILED, error.failure.value, detail=error.detail, again=Again.READ, kept=None)
    charset = parameters.lower().partition("charset=")[2].partition(";")[0].strip(" \"'")
    headers = [value for key, value in answer.headers if key.lower() == "x-robots-tag"]
    words = said(url, body, agent=AGENT, kind=kind.strip().lower(), charset=charset, headers=headers)
    if not words.index:
        records = metadata(url, at, {"outcome": Outcome.NO_INDEX.value})
        return made(Outcome.NO_INDEX, said=words, again=Again.READ, kept=None)
    return made(Outcome.PAGE, said=words)
