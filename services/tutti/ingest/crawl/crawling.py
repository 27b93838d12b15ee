"""Crawling: level by level, from the seeds on, until nothing is left to visit.

Promises: whatever is stopped, it goes on where it was: a page counts as visited once its records are stored, so that at
most a batch is visited twice. The same site gives the same set of pages, however often it was stopped.
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
from tutti.chassis.unit import Unit
from tutti.chassis.work import put_named
from tutti.ingest.crawl.answers import Earlier
from tutti.ingest.crawl.archive import warcinfo
from tutti.ingest.crawl.frontier import Asked, Found, Frontier
from tutti.ingest.crawl.pacing import LONGEST_WAIT_SECONDS, Paces
from tutti.ingest.crawl.robots import MAX_DELAY_SECONDS, Access, Robots, robots, unavailable
from tutti.ingest.crawl.scope import Scope, Taken
from tutti.ingest.crawl.urls import NotAPage, canonical, host_of
from tutti.ingest.crawl.visiting import AGENT, Manner, RobotsAnswer, Visit, read_sitemap, robots_all, visit_all

MAX_HOSTS = 50
"""That are visited together: with more, archives would have a page or two."""
RULES_SECONDS, MAX_RULES_ASKED = 24 * 3600, 5
"""For so long rules hold; at so many levels those that could not be had are asked for."""
MAX_SITEMAPS = 1_000
"""Files of them that are read; those of the largest sites have 50,000 URLs each."""

_ABOUT = {"format": "WARC File Format 1.1", "robots": "classic"}

Run = Callable[..., Any]
"""Carries out a function in another process, with these arguments."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`seeds` are canonical URLs; at most `batch` pages are visited, and recorded, together, of a host as many as take
    `batch_seconds`.
    """

    seeds: tuple[str, ...]
    scope: Scope
    manner: Manner
    batch: int = 200
    batch_seconds: float = 20.0
    sitemaps: bool = True
    since: str = ""
    """An earlier crawl: what it kept is asked for only if it has changed."""


class Crawling:
    def __init__(self, host: Host, frontier: Frontier, name: str, plan: Plan) -> None:
        self._host, self._frontier, self._name, self._plan = host, frontier, name, plan
        self._paces = Paces(host.clock, plan.manner.delay_seconds)

    def run(self, run: Run, check: Callable[[], None]) -> None:
        """Go on to the end; `check` raises where the work is to stop."""
        units, frontier, name = self._host.units, self._frontier, self._name
        units.run(lambda unit: frontier.find(unit, name, map(Found, self._plan.seeds), 0))
        if self._plan.sitemaps and not units.run(lambda unit: frontier.begun(unit, name)):
            self._sitemaps(run, check)
        taken = units.run(lambda unit: frontier.taken(unit, name))
        while (depth := units.run(lambda unit: frontier.depth(unit, name))) is not None:
            self._decide(depth, taken, check)
            self._visit(depth, run, check)

    def _sitemaps(self, run: Run, check: Callable[[], None]) -> None:
        """What the hosts of the seeds list is as far away as what the seeds link to."""
        hosts = {host_of(url) for url in self._plan.seeds}
        found = self._rules(hosts, 0, run)
        near = [rules for rules in found.values() if rules.delay_seconds <= MAX_DELAY_SECONDS]
        waiting = [each for rules in near for each in rules.sitemaps]
        seen: set[str] = set()
        while waiting and len(seen) < MAX_SITEMAPS:
            check()
            try:
                url = canonical(waiting.pop(0))
            except NotAPage:
                continue
            if url in seen or (host := host_of(url)) not in hosts:
                continue
            seen.add(url)
            listed = run(read_sitemap, url, self._paces.of(host), self._plan.manner)
            self._paces.asked(host, found[host].delay_seconds)
            waiting += listed.sitemaps
            self._host.units.run(
                lambda unit, listed=listed: self._frontier.find(unit, self._name, map(Found, listed.pages), 1)  # type: ignore[misc]
            )

    def _decide(self, depth: int, taken: Taken, check: Callable[[], None]) -> None:
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
            shares = {host: self._share(rules[host], len(chosen)) for host in chosen}
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
        """The first hosts that may be asked soon; else the one that may be asked first."""
        waits = ((self._paces.wait(host), host) for host in hosts)
        soon = itertools.islice((host for wait, host in waits if wait <= self._plan.batch_seconds), MAX_HOSTS)
        return list(soon) or [min(hosts, key=self._paces.wait)]

    def _share(self, rules: Robots, hosts: int) -> int:
        """Pages of a host, one of so many, that are visited together."""
        delay = max(rules.delay_seconds, self._plan.manner.delay_seconds)
        most = max(1, self._plan.batch // hosts)
        in_time = int(self._plan.batch_seconds / delay) if delay and rules.delay_seconds <= MAX_DELAY_SECONDS else most
        return max(1, min(most, in_time))

    def _batch(self, depth: int, pages: Sequence[Found], rules: Mapping[str, Robots], run: Run) -> None:
        """Visit pages, host by host, and record them. Each host has an archive, so that archives in the order of their
        first URLs have all URLs in order, whatever was visited together.
        """
        urls = [page.url for page in pages]
        paces = {host: self._paces.of(host, rules[host].delay_seconds) for host in map(host_of, urls)}
        visits, after = run(visit_all, urls, paces, self._plan.manner, self._earlier(urls))
        self._paces.keep(after)
        head = warcinfo(self._host.clock.now(), {"software": version.producer("ingest"), **_ABOUT})
        done: list[tuple[str, list[tuple[Found, Visit]]]] = []
        for _, part in itertools.groupby(zip(pages, visits, strict=True), lambda each: host_of(each[0].url)):
            found, answers = zip(*part, strict=True)
            records = b"".join((head, *(visit.records for visit in answers)))
            archive = put_named(self._host.blobs, "ingest/archives", records, ".warc.gz")
            done.append((archive, list(zip(found, placed(answers, archive, len(head)), strict=True))))

        def record(unit: Unit) -> None:
            for archive, visited in done:
                self._frontier.visited(unit, self._name, depth, visited, archive)

        self._host.units.run(record)

    def _earlier(self, urls: Sequence[str]) -> dict[str, Earlier]:
        """What the earlier crawl kept of URLs, as far as it is still there."""
        if not self._plan.since:
            return {}
        blobs, since = self._host.blobs, self._plan.since
        known = self._host.units.run(lambda unit: self._frontier.answers.find(unit, since, urls))
        there = {key: _size(blobs, key) for key in {each.archive for each in known.values()}}
        return {
            url: Earlier(each, blobs.get_range(each.archive, each.offset, each.size) if each.conditions else b"")
            for url, each in known.items()
            if each.offset + each.size <= there[each.archive]
        }

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
        found = {host: robots(known[host].status, known[host].body, AGENT) for host in wanted}
        for host, rules in found.items():
            # One that is not new was asked before a crawl was stopped, nobody knows when last.
            if host in new or host not in self._paces:
                self._paces.asked(host, rules.delay_seconds)
        return found

    def _allowed(self, pages: Sequence[Found], rules: dict[str, Robots]) -> list[Found]:
        """Those that may be visited; the others are refused, with the reason."""
        reasons = {page.url: _refusal(page.url, rules[host_of(page.url)]) for page in pages}

        def refuse(unit: Unit) -> None:
            for url, reason in reasons.items():
                if reason:
                    self._frontier.refuse(unit, self._name, url, reason)

        if any(reasons.values()):
            self._host.units.run(refuse)
        return [page for page in pages if not reasons[page.url]]


def placed(visits: Sequence[Visit], archive: str, offset: int) -> Iterator[Visit]:
    """Visits whose answers know the archive in which their records stand, one behind the other, from `offset` on."""
    for visit in visits:
        new = visit.kept is not None and not visit.kept.archive
        yield replace(visit, kept=replace(visit.kept, archive=archive, offset=offset)) if new else visit  # type: ignore[type-var]
        offset += len(visit.records)


def _size(blobs: Blobs, key: str) -> int:
    """Bytes of a blob; 0 where it is gone."""
    try:
        return blobs.stat(key).size
    except BlobMissing:
        return 0


def _due(known: RobotsAnswer, asked: Asked | None, depth: int, now: int) -> bool:
    """Whether a host is to be asked for its rules again."""
    if asked is None or now - asked.at >= RULES_SECONDS:  # one that was asked before this was recorded
        return True
    return unavailable(known.status) and asked.depth < depth and asked.times < MAX_RULES_ASKED


def _renewed(
    answer: RobotsAnswer, known: RobotsAnswer | None, asked: Asked | None, depth: int, now: int
) -> tuple[RobotsAnswer, Asked]:
    """Rules that were known hold as long as new ones cannot be had (RFC 9309, section 2.4)."""
    times = 1 + (asked.times if asked else 0) if unavailable(answer.status) else 0
    holds = known is not None and unavailable(answer.status) and not unavailable(known.status)
    return known if known is not None and holds else answer, Asked(now, depth, times)


def _refusal(url: str, rules: Robots) -> str:
    if rules.access is Access.UNAVAILABLE:
        return "robots_unavailable"
    if rules.delay_seconds > MAX_DELAY_SECONDS:
        return "robots_delay"
    return "" if rules.allows(url) else "robots"
