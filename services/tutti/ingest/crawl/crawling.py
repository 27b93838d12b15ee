"""Crawling: level by level, from the seeds on, until nothing is left to visit.

Promises: whatever is stopped, it goes on where it was: a page counts as visited once its records are stored, so that at
most a batch is visited twice, which takes seconds. The same site gives the same set of pages, however often it was
stopped. Memory holds no more than a batch, whose bytes are bounded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis import version
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.work import put_named
from tutti.ingest.crawl.announcements import NONE_LISTED, RobotsAnswer, SitemapAnswer, read_sitemap, robots_all
from tutti.ingest.crawl.archive import warcinfo
from tutti.ingest.crawl.asking import AGENT, NEW, Manner, Put
from tutti.ingest.crawl.fetching import HELD_BYTES
from tutti.ingest.crawl.frontier import MAX_REDIRECTS, DiscoveredUrl, Frontier, RobotsAttempt
from tutti.ingest.crawl.notes import About
from tutti.ingest.crawl.pacing import LONGEST_WAIT_SECONDS, Paces
from tutti.ingest.crawl.responses import Earlier
from tutti.ingest.crawl.robots import MAX_DELAY_SECONDS, Access, Parsed, Robots, unavailable
from tutti.ingest.crawl.scope import PageCounts, Scope
from tutti.ingest.crawl.urls import NotAPage, canonical, host_of
from tutti.ingest.crawl.visiting import Bounds, Visit, visit_all

MAX_HOSTS = 50
"""Maximum number of hosts that are crawled in parallel: with more, archives would have a page or two."""
PATIENCE = 2
"""Times as many pages of a host that was given up go into a batch: it is asked once in each."""
RULES_SECONDS, MAX_RULES_ASKED = 24 * 3600, 5
"""For so long rules hold; at so many levels those that could not be had are asked for."""
MAX_SITEMAPS = 1_000
"""Files of them that are read; those of the largest sites have 50,000 URLs each."""

_ABOUT = {"format": "WARC File Format 1.1", "robots": "classic"}

Run = Callable[..., Any]
"""Carries out a function in another process, with these arguments."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`seeds` are canonical URLs; at most `batch` pages are visited, and recorded, together: as many as can be begun in
    `batch_seconds`, and no more once what came has `batch_bytes`.
    """

    seeds: tuple[str, ...]
    scope: Scope
    manner: Manner
    batch: int = 200
    batch_seconds: float = 10.0
    batch_bytes: int = HELD_BYTES
    sitemaps: bool = True
    since: str = ""
    """An earlier crawl: what it kept is asked for only if it has changed."""


class Crawling:
    def __init__(self, host: Host, frontier: Frontier, name: str, plan: Plan) -> None:
        self._host, self._frontier, self._name, self._plan = host, frontier, name, plan
        self._paces = Paces(host.clock, plan.manner.delay_seconds)
        self._parsed = Parsed(AGENT)
        self._visited = 0
        self._put: dict[str, tuple[Put, float]] = {}
        """Pages that were put off, and when; forgotten when a crawl is stopped: then they are tried as often again."""

    def run(self, run: Run, check: Callable[[], None]) -> None:
        """Go on to the end; `check` raises where the work is to stop."""
        units, frontier, name = self._host.units, self._frontier, self._name
        units.run(lambda unit: frontier.find(unit, name, map(DiscoveredUrl, self._plan.seeds), 0))
        if self._plan.sitemaps and not units.run(lambda unit: frontier.begun(unit, name)):
            self._sitemaps(run, check)
        taken = units.run(lambda unit: frontier.taken(unit, name))
        counts = units.run(lambda unit: frontier.counts(unit, name))
        self._visited = sum(count for what, count in counts.items() if what.startswith("visited/"))
        while (depth := units.run(lambda unit: frontier.depth(unit, name))) is not None:
            self._decide(depth, taken, check)
            self._visit(depth, run, check)

    def _sitemaps(self, run: Run, check: Callable[[], None]) -> None:
        """Add the URLs in the sitemaps of the seeds' hosts, at the same distance as the links of the seeds."""
        hosts = {host_of(url) for url in self._plan.seeds}
        found = self._rules(hosts, 0, run)
        waiting = [DiscoveredUrl(each) for rules in found.values() for each in rules.sitemaps]
        seen: set[str] = set()
        while waiting and len(seen) < MAX_SITEMAPS:
            check()
            place = waiting.pop(0)
            try:
                url = canonical(place.url)
            except NotAPage:
                continue
            if url in seen or (host := host_of(url)) not in hosts or place.redirects > MAX_REDIRECTS:
                continue
            seen.add(url)
            pace = self._paces.of(host, found[host].delay_seconds)
            if reason := _refusal(url, found[host]):
                answer = SitemapAnswer(NONE_LISTED, f"refused/{reason}", pace)
            else:
                answer = run(read_sitemap, url, pace, self._plan.manner)
            self._paces.keep({host: answer.pace})
            if answer.target:
                waiting.insert(0, DiscoveredUrl(answer.target, place.redirects + 1))
            waiting += map(DiscoveredUrl, answer.listed.sitemaps[: max(0, MAX_SITEMAPS - len(waiting))])

            def record(unit: Unit, url: str = url, answer: SitemapAnswer = answer) -> None:
                self._frontier.find(unit, self._name, map(DiscoveredUrl, answer.listed.pages), 1)
                self._frontier.notes.keep(unit, self._name, About.SITEMAP, {url: answer.outcome})

            self._host.units.run(record)

    def _decide(self, depth: int, taken: PageCounts, check: Callable[[], None]) -> None:
        """The whole level is decided before any of it is visited; `taken` grows once that is recorded."""
        count = 1
        while count:
            check()
            count, more = self._host.units.run(
                lambda unit: self._frontier.decide(unit, self._name, depth, self._plan.scope, taken)
            )
            taken.grow(more)

    def _visit(self, depth: int, run: Run, check: Callable[[], None]) -> None:
        """All hosts of a level in turn."""
        units, frontier = self._host.units, self._frontier
        hosts = self._hosts_waiting(depth)
        while hosts:
            check()
            chosen = self._ready(hosts)
            rules = self._rules(chosen, depth, run)
            shares = {host: self._share(host, rules[host], len(chosen)) for host in chosen}
            pages = units.run(lambda unit, shares=shares: frontier.waiting(unit, self._name, depth, shares))  # type: ignore[misc]
            there = {host_of(page.url) for page in pages}
            # Those that were chosen come last; one without a page is done.
            hosts = [host for host in hosts if host not in shares] + [host for host in chosen if host in there]
            if allowed := self._allowed(pages, rules):
                self._batch(depth, allowed, rules, run)

    def _hosts_waiting(self, depth: int) -> list[str]:
        units, frontier, name = self._host.units, self._frontier, self._name
        hosts, after = list[str](), ""
        while found := units.run(lambda unit, after=after: frontier.hosts_waiting(unit, name, depth, after)):  # type: ignore[misc]
            hosts += found
            after = found[-1]
        return hosts

    def _ready(self, hosts: Sequence[str]) -> list[str]:
        """The first hosts that may be asked soon after the one that may be asked first."""
        soon = min(map(self._paces.wait, hosts)) + self._plan.batch_seconds
        return list(itertools.islice((host for host in hosts if self._paces.wait(host) <= soon), MAX_HOSTS))

    def _share(self, host: str, rules: Robots, hosts: int) -> int:
        """Pages of a host, one of so many, that are visited together."""
        pace = self._paces.of(host, rules.delay_seconds)
        delay, most = pace.delay_seconds, max(1, self._plan.batch // hosts)
        seconds = self._plan.batch_seconds * (PATIENCE if pace.refusals >= self._plan.manner.tries else 1)
        in_time = int(seconds / delay) if delay and rules.delay_seconds <= MAX_DELAY_SECONDS else most
        return max(1, min(most, in_time))

    def _batch(self, depth: int, pages: Sequence[DiscoveredUrl], rules: Mapping[str, Robots], run: Run) -> None:
        """Visit pages, host by host, and record them. Archives in the order of their first URLs have all URLs of a host
        in order, whatever was visited together: each has pages of which none that comes between is in another.
        """
        units, clock = self._host.units, self._host.clock
        earlier = self._earlier([page.url for page in pages])
        put = {page.url: self._put_off(page.url) for page in pages[: len(earlier)]}
        paces = {host: self._paces.of(host, rules[host].delay_seconds) for host in map(host_of, put)}
        known = {url: each for url, each in zip(put, earlier, strict=True) if each is not None}
        bounds = Bounds(self._plan.batch_seconds, self._plan.batch_bytes, self._visited)
        came, after = run(visit_all, put, paces, self._plan.manner, known, bounds)
        self._paces.keep(after)
        for url, each in zip(put, came, strict=True):
            self._put.pop(url, None)
            if isinstance(each, Put) and each.tries:
                self._put[url] = each, clock.monotonic()
        last = units.run(lambda unit: self._frontier.last_visited(unit, self._name, depth, paces))
        head = warcinfo(clock.now(), {"software": version.producer("ingest"), **_ABOUT})
        done: list[tuple[str, list[tuple[DiscoveredUrl, Visit]]]] = []
        for part in together(pages, came, last):
            found, answers = zip(*part, strict=True)
            records = b"".join((head, *(visit.records for visit in answers)))
            archive = put_named(self._host.blobs, "ingest/archives", records, ".warc.gz")
            done.append((archive, list(zip(found, placed(answers, archive, len(head)), strict=True))))

        def record(unit: Unit) -> None:
            for archive, visited in done:
                self._frontier.visited(unit, self._name, depth, visited, archive)

        units.run(record)
        self._visited += sum(len(visited) for _, visited in done)

    def _put_off(self, url: str) -> Put:
        put, at = self._put.get(url, (NEW, 0.0))
        return replace(put, wait_seconds=max(0.0, put.wait_seconds + at - self._host.clock.monotonic()))

    def _earlier(self, urls: Sequence[str]) -> list[Earlier | None]:
        """The stored answers of the earlier crawl for URLs, if they still exist: of all, or only of the first if they
        are large.
        """
        if not self._plan.since:
            return [None] * len(urls)
        blobs, since = self._host.blobs, self._plan.since
        known = self._host.units.run(lambda unit: self._frontier.answers.find(unit, since, urls))
        there = {key: _size(blobs, key) for key in {each.archive for each in known.values()}}
        found, held = list[Earlier | None](), 0
        for url in urls:
            each = known.get(url)
            if each is None or each.offset + each.size > there[each.archive]:
                found.append(None)
                continue
            wanted = each.size if each.conditions else 0
            held += wanted
            if found and held > self._plan.batch_bytes:
                break
            found.append(Earlier(each, blobs.get_range(each.archive, each.offset, wanted) if wanted else b""))
        return found

    def _rules(self, hosts: Iterable[str], depth: int, run: Run) -> dict[str, Robots]:
        """The rules of hosts: asked for once a day, and where they could not be had at some further levels."""
        wanted, now = sorted(set(hosts)), int(self._host.clock.now().timestamp())
        units, frontier = self._host.units, self._frontier
        known = units.run(lambda unit: frontier.robots(unit, self._name, wanted))
        asked = units.run(lambda unit: frontier.rules_asked(unit, self._name, wanted))
        most = LONGEST_WAIT_SECONDS + self._plan.manner.delay_seconds
        waits = {host: self._paces.wait(host) for host in wanted}
        new = [
            host
            for host in wanted
            if host not in known or (waits[host] <= most and _due(known[host], asked.get(host), depth, now))
        ]
        if new:
            answers = run(robots_all, new, waits, self._plan.manner)
            now = int(self._host.clock.now().timestamp())
            kept = [_renewed(each, known.get(each.host), asked.get(each.host), depth, now) for each in answers]
            units.run(lambda unit: frontier.keep_robots(unit, self._name, kept))
            known |= {answer.host: answer for answer, _ in kept}
        found = {host: self._parsed.of(known[host].status, known[host].body) for host in wanted}
        for host, rules in found.items():
            # One that is not new was asked before a crawl was stopped, nobody knows when last.
            if host in new or host not in self._paces:
                self._paces.asked(host, rules.delay_seconds)
        return found

    def _allowed(self, pages: Sequence[DiscoveredUrl], rules: dict[str, Robots]) -> list[DiscoveredUrl]:
        """Those that may be visited; the others are refused, with the reason."""
        reasons = {page.url: _refusal(page.url, rules[host_of(page.url)]) for page in pages}

        def refuse(unit: Unit) -> None:
            for url, reason in reasons.items():
                if reason:
                    self._frontier.refuse(unit, self._name, url, reason)

        if any(reasons.values()):
            self._host.units.run(refuse)
        return [page for page in pages if not reasons[page.url]]


def together(
    pages: Sequence[DiscoveredUrl], came: Iterable[Visit | Put], last: Mapping[str, str]
) -> Iterator[list[tuple[DiscoveredUrl, Visit]]]:
    """The visited ones of pages, in order, in parts: of one host, with no postponed or earlier visited page between
    them. `last`: by host the last visited URL of the level.
    """
    part: list[tuple[DiscoveredUrl, Visit]] = []
    for page, visit in zip(pages, came, strict=False):
        before, host = part[-1][0].url if part else "", host_of(page.url)
        if part and (isinstance(visit, Put) or host_of(before) != host or before < last.get(host, "")):
            yield part
            part = []
        if not isinstance(visit, Put):
            part.append((page, visit))
    if part:
        yield part


def placed(visits: Sequence[Visit], archive: str, offset: int) -> Iterator[Visit]:
    """Visits whose answers know the archive in which their records stand, one behind the other, from `offset` on, and
    which hold those no more.
    """
    for visit in visits:
        new = visit.kept is not None and not visit.kept.archive
        kept = replace(visit.kept, archive=archive, offset=offset) if new else visit.kept  # type: ignore[type-var]
        yield replace(visit, kept=kept, records=b"")
        offset += len(visit.records)


def _size(blobs: Blobs, key: str) -> int:
    """Bytes of a blob; 0 where it is gone."""
    try:
        return blobs.stat(key).size
    except BlobMissing:
        return 0


def _due(known: RobotsAnswer, asked: RobotsAttempt | None, depth: int, now: int) -> bool:
    """True if the rules of a host are to be requested again."""
    if asked is None or now - asked.at >= RULES_SECONDS:  # one that was asked before this was recorded
        return True
    return unavailable(known.status) and asked.depth < depth and asked.times < MAX_RULES_ASKED


def _renewed(
    answer: RobotsAnswer, known: RobotsAnswer | None, asked: RobotsAttempt | None, depth: int, now: int
) -> tuple[RobotsAnswer, RobotsAttempt]:
    """Rules that were known hold as long as new ones cannot be had (RFC 9309, section 2.4)."""
    times = 1 + (asked.times if asked else 0) if unavailable(answer.status) else 0
    holds = known is not None and unavailable(answer.status) and not unavailable(known.status)
    return known if known is not None and holds else answer, RobotsAttempt(now, depth, times)


def _refusal(url: str, rules: Robots) -> str:
    if rules.access is Access.UNAVAILABLE:
        return "robots_unavailable"
    if rules.delay_seconds > MAX_DELAY_SECONDS:
        return "robots_delay"
    return "" if rules.allows(url) else "robots"
