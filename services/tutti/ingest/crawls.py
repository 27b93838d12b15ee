"""Crawls as work: what is asked is checked, a task carries it out, its archives become a manifest.

Promises: where hosts lie instead of where their names lead is told to nobody, and the newest word counts; a crawl that
was stopped goes on; one that brought no page fails and says what became of its URLs.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.config.diskspace import little_left
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import OUTAGE_BACKOFF, Retry, TaskContext, WorkFailed
from tutti.chassis.work.work import ENDED, Outcome, Work, publish
from tutti.contracts.common.v1 import STATE_DONE, CancelRequest, GetRequest, ListRequest, State
from tutti.contracts.ingest.v1 import (
    Crawl,
    CrawledPage,
    CrawlSpec,
    CreateCrawlRequest,
    CreateCrawlResponse,
    ListCrawledPagesRequest,
    ListCrawledPagesResponse,
    ListCrawlsResponse,
    ShowCrawlRequest,
    ShowCrawlResponse,
)
from tutti.corpus.documents.stages import CrawlBody
from tutti.ingest.bounds import private_ranges
from tutti.ingest.crawl.addresses import Named, PrivateAddress, address_of, check_address
from tutti.ingest.crawl.asking import Manner
from tutti.ingest.crawl.causes import Causes
from tutti.ingest.crawl.crawling import Crawling, Plan
from tutti.ingest.crawl.crawlstate import Standing, counted
from tutti.ingest.crawl.fetching import Limits
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawl.hostaddresses import HostAddresses, decoded, encoded
from tutti.ingest.crawl.responses import Saved
from tutti.ingest.crawl.scope import Scope
from tutti.ingest.crawl.urls import NotAPage, canonical, host_of
from tutti.ingest.paths import Paths
from tutti.ingest.ranges import EVERY
from tutti.ingest.reading.extraction import EXTRACTION_VERSION

LOGIC_VERSION = f"crawl-5.{EXTRACTION_VERSION}"
PAGES, ALIKE = 10_000, 1_000
MAX_LISTED = 1_000


def plan_of(spec: CrawlSpec, ranges: tuple[str, ...] = EVERY) -> Plan:
    """The plan of a spec. Raises InvalidField."""
    seeds = tuple(dict.fromkeys(_canonical("spec.seeds", seed) for seed in spec.seeds))
    if not seeds:
        raise InvalidField("spec.seeds", seen="nothing", expected="URLs to begin with, such as https://docs.example/")
    if not spec.contact.strip() or not spec.contact.isprintable() or not spec.contact.isascii():
        raise InvalidField(
            "spec.contact",
            seen=spec.contact or "nothing",
            expected="a URL or a mail address in ASCII: the contact that the User-Agent header gives to visited sites",
        )
    for name in ("delay_seconds", "page_seconds"):
        if not 0 <= getattr(spec, name) <= 3600:
            raise InvalidField(f"spec.{name}", seen=getattr(spec, name), expected="seconds, at most 3600")
    for place in spec.connect:
        try:
            address_of(place.address)
        except ValueError:
            raise InvalidField(
                "spec.connect",
                seen=f"{place.host}: {place.address}",
                expected="an IP address with a port, such as 127.0.0.1:8080",
            ) from None
    within = tuple(_canonical("spec.within", each) for each in spec.within)
    pages = spec.pages or PAGES
    scope = Scope(
        within or tuple(dict.fromkeys(f"{host_of(seed)}/" for seed in seeds)),
        tuple(_canonical("spec.without", each) for each in spec.without),
        depth=spec.depth,
        pages=pages,
        pages_of_host=spec.pages_of_host or pages,
        alike=spec.alike or ALIKE,
    )
    known = Limits()
    limits = Limits(
        total_seconds=spec.page_seconds or known.total_seconds, max_bytes=spec.page_bytes or known.max_bytes
    )
    manner = Manner(
        spec.contact.strip(),
        spec.delay_seconds,
        spec.connections or 1,
        limits=limits,
        allow_private=spec.allow_private,
        connect={place.host: place.address for place in spec.connect},
        ranges=ranges,
    )
    return Plan(seeds, scope, manner, sitemaps=not spec.skip_sitemaps, since=spec.since)


def require_within(spec: CrawlSpec, ranges: tuple[str, ...]) -> None:
    """Raise WorkFailed if the recipe names the address of a host that is out of bounds."""
    for place in spec.connect:
        try:
            check_address(Named(address_of(place.address)[0]), allow_private=spec.allow_private, ranges=ranges)
        except PrivateAddress as error:
            raise WorkFailed(f"{place.host}: {error}") from error


def _canonical(field: str, url: str) -> str:
    try:
        return canonical(url)
    except NotAPage as error:
        raise InvalidField(field, seen=url, expected=f"a URL of http or https ({error.fault.value})") from None


def check(context: TaskContext, still: Callable[[], None] = lambda: None) -> None:
    """Raise what ends the work, and Retry if the disk has no room for answers: hosts are not asked for them then."""
    context.check()
    still()
    if words := little_left(Path(tempfile.gettempdir())):
        raise Retry(words, after=OUTAGE_BACKOFF.most)


def work_of(host: Host, frontier: Frontier, paths: Paths) -> Work[Crawl]:
    """The work of crawling."""
    places = HostAddresses(host, frontier, paths)

    def say(name: str, reason: str) -> None:
        def put(unit: Unit) -> None:
            crawl = work.resource.lock(unit, name)
            if crawl.state not in ENDED:
                crawl.reason = reason
                work.resource.put(unit, crawl)

        host.units.run(put)

    def run(context: TaskContext, crawl: Crawl) -> Outcome:
        spec, name = CrawlSpec(), crawl.name
        spec.CopyFrom(crawl.spec)
        kept = places.kept(name)
        spec.connect.extend(decoded(kept))
        ranges = private_ranges(host) if spec.connect or spec.allow_private else EVERY
        require_within(spec, ranges)
        if context.task.attempt > 1:
            places.await_all(name, kept, context.pool, partial(say, name))
        plan, still = plan_of(spec, ranges), partial(places.check, name, kept)
        Crawling(host, frontier, name, plan).run(context.pool, partial(check, context, still))
        counts = host.units.run(lambda unit: frontier.counts(unit, name))
        if not counts.get("visited/page"):
            causes = host.units.run(lambda unit: Causes(frontier, name).of_seeds(unit, plan.seeds))
            raise WorkFailed(nothing_visited(counts, causes))
        body = CrawlBody(
            archives=tuple(host.units.run(lambda unit: frontier.archives(unit, name))),
            site_digest=host.units.run(lambda unit: frontier.site_digest(unit, name)),
            counts=tuple(counts.items()),
            earlier=tuple(host.units.run(lambda unit: frontier.answers.elsewhere(unit, name))),
        )
        saved = host.units.run(lambda unit: frontier.answers.saved(unit, name))
        size = sum(host.blobs.stat(key).size for key in body.archives)
        result = publish(
            host.blobs, "ingest/crawls", body.manifest(producer=version.producer("ingest")), data_bytes=size
        )

        def fill(unit: Unit, crawl: Crawl) -> None:
            crawl.result.CopyFrom(result)
            crawl.site_digest = body.site_digest
            crawl.counts.extend(counted(counts))
            _show(crawl, saved)

        return fill

    work = Work(host, "crawls", Crawl, run, LOGIC_VERSION)
    return work


def nothing_visited(counts: Mapping[str, int], causes: Sequence[str]) -> str:
    """A message with the outcomes of all URLs of a crawl that fetched no page, and the reasons."""
    found = ", ".join(f"{count} {what}" for what, count in counts.items())
    why = "; ".join(causes) or "change input.crawl of the recipe"
    return f"the crawl brought no page; of its URLs: {found or 'none was found'}; {why}"


def _show(crawl: Crawl, saved: Saved) -> None:
    crawl.not_modified, crawl.identical, crawl.bytes_saved = saved.not_modified, saved.identical, saved.nbytes


class CrawlApi:
    """The calls about crawls."""

    def __init__(self, host: Host, crawls: Work[Crawl], frontier: Frontier, paths: Paths) -> None:
        self._host, self._crawls, self._frontier, self._paths = host, crawls, frontier, paths

    def CreateCrawl(self, request: CreateCrawlRequest, call: Call) -> CreateCrawlResponse:
        plan_of(request.spec)
        # Where hosts lie is no part of what is asked: asked again with other places, it is the same crawl.
        asked, connect = CreateCrawlRequest(), encoded(request.spec)
        asked.CopyFrom(request)
        asked.spec.ClearField("connect")
        made = self._crawls.create(
            asked,
            check=lambda: self._check_since(request.spec.since, call.principal),
            keep=lambda unit: self._paths.keep(unit, request.name, connect),
        )
        return CreateCrawlResponse(crawl=made)

    def _check_since(self, since: str, principal: Principal) -> None:
        """Raises InvalidField where that is no crawl that is done."""
        if not since:
            return
        try:
            state = self._crawls.get(GetRequest(name=check_name("crawls", since)), principal).state
        except (NotFound, InvalidField):
            raise InvalidField(
                "spec.since", seen=since, expected="a crawl that was made here, as `tutti crawls ls` has it"
            ) from None
        if state != STATE_DONE:
            seen = f"{since}, which is {State.Name(state).removeprefix('STATE_').lower()}"
            raise InvalidField("spec.since", seen=seen, expected="a crawl that is done")

    def GetCrawl(self, request: GetRequest, call: Call) -> Crawl:
        found = self._crawls.get(request, call.principal)
        if found.state not in ENDED:
            counts = self._host.units.run(lambda unit: self._frontier.counts(unit, request.name))
            found.counts.extend(counted(counts))
            _show(found, self._host.units.run(lambda unit: self._frontier.answers.saved(unit, request.name)))
        return found

    def ListCrawls(self, request: ListRequest, call: Call) -> ListCrawlsResponse:
        return self._crawls.page(request, ListCrawlsResponse, call.principal)

    def CancelCrawl(self, request: CancelRequest, call: Call) -> Crawl:
        return self._crawls.cancel(request, call.principal)

    def ShowCrawl(self, request: ShowCrawlRequest, call: Call) -> ShowCrawlResponse:
        crawl = self.GetCrawl(GetRequest(name=request.name), call)
        standing = Standing(self._host, self._frontier, crawl)
        return standing.told(min(request.hosts or 20, MAX_LISTED), min(request.urls or 10, MAX_LISTED))

    def ListCrawledPages(self, request: ListCrawledPagesRequest, call: Call) -> ListCrawledPagesResponse:
        check_name("crawls", request.name)
        self._crawls.get(GetRequest(name=request.name), call.principal)
        size = min(request.page_size or 100, MAX_LISTED)
        found = self._host.units.run(
            lambda unit: self._frontier.known(unit, request.name, request.what, request.page_token, size)
        )
        causes = self._host.units.run(lambda unit: Causes(self._frontier, request.name).of_pages(unit, found))
        pages = [
            CrawledPage(
                url=each.url, depth=each.depth, what=each.what, status=each.status, cause=causes.get(each.url, "")
            )
            for each in found
        ]
        return ListCrawledPagesResponse(pages=pages, next_page_token=found[-1].url if len(found) == size else "")
