"""The frontier: every URL that a crawl knows, and what became of it, in the database.

Promises: a URL is known once, at the least distance from a seed at which it was found; nothing that was found is lost,
and what was visited is not visited again. Memory is that of a batch and of the counts of hosts and shapes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit
from tutti.ingest.crawl.announcements import RobotsAnswer
from tutti.ingest.crawl.notes import LEADS_TO, About, Notes
from tutti.ingest.crawl.responses import Answers
from tutti.ingest.crawl.robots import unavailable
from tutti.ingest.crawl.scope import PageCounts, Scope, level
from tutti.ingest.crawl.urls import host_of
from tutti.ingest.crawl.visiting import Outcome, Visit
from tutti.records.canonical import framed, hasher, named

MAX_REDIRECTS = 10
_TOGETHER = 500


class State(IntEnum):
    """The state of a URL."""

    FOUND = 0
    WAITING = 1  # is to be visited
    LEFT = 2  # out of scope, beyond a limit
    VISITED = 3
    REFUSED = 4  # was to be visited, and its host does not allow it


@dataclass(frozen=True, slots=True)
class DiscoveredUrl:
    """A URL and how many redirects in a row led to it."""

    url: str
    redirects: int = 0


@dataclass(frozen=True, slots=True)
class UrlStatus:
    """The state and the outcome of a URL: `visited/page`, `left/trap`."""

    url: str
    depth: int
    what: str
    status: int
    digest: str


@dataclass(frozen=True, slots=True)
class RobotsAttempt:
    """The last request for the rules of a host: in seconds since 1970, at which level, and the number of failures until
    then.
    """

    at: int
    depth: int
    times: int


class Frontier:
    def __init__(self, metadata: MetaData) -> None:
        self.pages = declare(
            "crawl_pages",
            metadata,
            Column("crawl", NAME, primary_key=True),
            Column("url", NAME, primary_key=True),
            Column("depth", Integer, nullable=False),
            Column("redirects", Integer, nullable=False),
            Column("state", Integer, nullable=False),
            Column("outcome", Text, nullable=False),
            Column("reason", Text, nullable=False),
            Column("status", Integer, nullable=False),
            Column("archive", Text, nullable=False),
            Column("digest", String(100), nullable=False),
            Index("crawl_pages_by_state", "crawl", "state", "depth", "url"),
        )
        self.hosts = declare(
            "crawl_hosts",
            metadata,
            Column("crawl", NAME, primary_key=True),
            Column("host", NAME, primary_key=True),
            Column("status", Integer),
            Column("body", LargeBinary, nullable=False),
        )
        self.rules = declare(
            "crawl_rules_asked",
            metadata,
            Column("crawl", NAME, primary_key=True),
            Column("host", NAME, primary_key=True),
            Column("at", BigInteger, nullable=False),
            Column("depth", Integer, nullable=False),
            Column("times", Integer, nullable=False),
        )
        self.answers = Answers(metadata)
        self.notes = Notes(metadata)
        self.tables = (self.pages, self.hosts, self.rules, self.answers.table, self.notes.table)

    def find(self, unit: Unit, crawl: str, found: Iterable[DiscoveredUrl], depth: int) -> None:
        """Remember URLs; those that are known stay as they are, but for a shorter way of redirects at this depth."""
        least: dict[str, int] = {}
        for each in found:
            least[each.url] = min(each.redirects, least.get(each.url, each.redirects))
        pages, urls = self.pages, sorted(least)
        for begin in range(0, len(urls), _TOGETHER):
            part = urls[begin : begin + _TOGETHER]
            query = select(pages.c.url, pages.c.depth, pages.c.redirects, pages.c.state).where(
                and_(pages.c.crawl == crawl, pages.c.url.in_(part))
            )
            known = {row.url: row for row in unit.tx.execute(query)}
            for url, row in known.items():
                if row.depth == depth and row.state == State.FOUND and row.redirects > least[url]:
                    self._set(unit, crawl, url, redirects=least[url])
            new = [{**_row(crawl, url, depth), "redirects": least[url]} for url in part if url not in known]
            unit.tx.insert(pages, new)

    def depth(self, unit: Unit, crawl: str) -> int | None:
        """The least depth at which something is to be decided or visited; None when the crawl is done."""
        pages = self.pages
        query = select(func.min(pages.c.depth)).where(
            and_(pages.c.crawl == crawl, pages.c.state.in_([State.FOUND, State.WAITING]))
        )
        found = unit.tx.execute(query).scalar()
        return None if found is None else int(found)

    def decide(self, unit: Unit, crawl: str, depth: int, scope: Scope, taken: PageCounts) -> tuple[int, PageCounts]:
        """Decide on the next part of a level, in the order of URLs: how many there were, and what is taken beside what
        was taken before.
        """
        more = PageCounts()
        pages = self.pages
        query = (
            select(pages.c.url, pages.c.redirects)
            .where(and_(pages.c.crawl == crawl, pages.c.state == State.FOUND, pages.c.depth == depth))
            .order_by(pages.c.url)
            .limit(_TOGETHER)
        )
        redirects = {row.url: row.redirects for row in unit.tx.execute(query)}
        for url, left in level(
            (url for url, count in redirects.items() if count <= MAX_REDIRECTS), depth, scope, taken, more
        ):
            if left is None:
                self._set(unit, crawl, url, state=State.WAITING)
            else:
                self._set(unit, crawl, url, state=State.LEFT, reason=left.value)
        for url in (url for url, count in redirects.items() if count > MAX_REDIRECTS):
            self._set(unit, crawl, url, state=State.LEFT, reason="redirects")
        return len(redirects), more

    def taken(self, unit: Unit, crawl: str) -> PageCounts:
        """The number of pages selected so far, counted from the rows."""
        counted = PageCounts()
        pages, after = self.pages, ""
        while True:
            query = (
                select(pages.c.url)
                .where(
                    and_(
                        pages.c.crawl == crawl,
                        pages.c.url > after,
                        pages.c.state.in_([State.WAITING, State.VISITED, State.REFUSED]),
                    )
                )
                .order_by(pages.c.url)
                .limit(10 * _TOGETHER)
            )
            urls = [str(url) for url in unit.tx.execute(query).scalars()]
            for url in urls:
                counted.add(url)
            if not urls:
                return counted
            after = urls[-1]

    def hosts_waiting(self, unit: Unit, crawl: str, depth: int, after: str = "", limit: int = _TOGETHER) -> list[str]:
        """Hosts behind `after`, by name, of which pages of a level are to be visited."""
        found: list[str] = []
        while len(found) < limit:
            page = self._waiting(unit, crawl, depth, _behind(after) if after else "", "", 1)
            if not page:
                break
            after = host_of(page[0].url)
            found.append(after)
        return found

    def waiting(self, unit: Unit, crawl: str, depth: int, shares: Mapping[str, int]) -> list[DiscoveredUrl]:
        """The first pages of a level that are to be visited, of each host so many, host by host."""
        parts = (self._waiting(unit, crawl, depth, f"{host}/", _behind(host), share) for host, share in shares.items())
        return list(itertools.chain.from_iterable(parts))

    def last_visited(self, unit: Unit, crawl: str, depth: int, hosts: Iterable[str]) -> dict[str, str]:
        """The last visited URL of a level by host, if there is one."""
        pages, found = self.pages, dict[str, str]()
        for host in hosts:
            wanted = and_(
                *(pages.c.crawl == crawl, pages.c.state == State.VISITED, pages.c.depth == depth),
                *(pages.c.url >= f"{host}/", pages.c.url < _behind(host)),
            )
            last = unit.tx.execute(select(func.max(pages.c.url)).where(wanted)).scalar()
            if last is not None:
                found[host] = str(last)
        return found

    def coming(self, unit: Unit, crawl: str, depth: int, limit: int) -> list[str]:
        """URLs of a level that are visited next: of its hosts in turn."""
        hosts = self.hosts_waiting(unit, crawl, depth, limit=limit)
        shares = dict.fromkeys(hosts, -(-limit // max(1, len(hosts))))
        found = self.waiting(unit, crawl, depth, shares)
        by_host = [[page.url for page in part] for _, part in itertools.groupby(found, lambda page: host_of(page.url))]
        rounds = itertools.chain.from_iterable(itertools.zip_longest(*by_host))
        return [url for url in rounds if url is not None][:limit]

    def _waiting(self, unit: Unit, crawl: str, depth: int, least: str, behind: str, limit: int) -> list[DiscoveredUrl]:
        """Pages of a level that are to be visited, from one URL up to another, or to the last."""
        pages = self.pages
        wanted = [pages.c.crawl == crawl, pages.c.state == State.WAITING, pages.c.depth == depth, pages.c.url >= least]
        if behind:
            wanted.append(pages.c.url < behind)
        query = select(pages.c.url, pages.c.redirects).where(and_(*wanted)).order_by(pages.c.url).limit(limit)
        return [DiscoveredUrl(row.url, row.redirects) for row in unit.tx.execute(query)]

    def refuse(self, unit: Unit, crawl: str, url: str, reason: str) -> None:
        """It was to be visited, and is not; it counts towards limits, which must not depend on when a crawl stopped."""
        self._set(unit, crawl, url, state=State.REFUSED, reason=reason)

    def visited(
        self, unit: Unit, crawl: str, depth: int, visits: Sequence[tuple[DiscoveredUrl, Visit]], archive: str
    ) -> None:
        """Record visits whose records lie in an archive, and what they found."""
        found: list[DiscoveredUrl] = []
        for page, visit in visits:
            outcome = visit.outcome
            self._set(
                unit,
                crawl,
                page.url,
                state=State.VISITED,
                outcome=outcome.value,
                reason=visit.reason,
                status=visit.status,
                archive=archive,
                digest=visit.digest,
            )
            found += map(DiscoveredUrl, visit.found)
            if outcome is Outcome.REDIRECT and visit.target:
                found.append(DiscoveredUrl(visit.target, page.redirects + 1))
        words = {page.url: f"{LEADS_TO}{visit.target}" if visit.target else visit.detail for page, visit in visits}
        self.notes.keep(unit, crawl, About.PAGE, {url: said for url, said in words.items() if said})
        self.answers.keep(unit, crawl, ((visit.url, visit.again, visit.kept) for _, visit in visits if visit.kept))
        self.find(unit, crawl, found, depth + 1)

    def counts(self, unit: Unit, crawl: str) -> dict[str, int]:
        """The number of URLs by state, and by outcome or reason: `visited/page`, `left/trap`."""
        pages = self.pages
        columns = (pages.c.state, pages.c.outcome, pages.c.reason)
        query = select(*columns, func.count()).where(pages.c.crawl == crawl).group_by(*columns)
        found: Counter[str] = Counter()
        for state, outcome, reason, count in unit.tx.execute(query):
            found[_what(state, outcome, reason)] += count
        return dict(sorted(found.items()))

    def counts_of_host(self, unit: Unit, crawl: str, host: str) -> dict[str, int]:
        """The same of one host, each with its reason: `visited/not_ok/429`, `visited/failed/time`."""
        pages = self.pages
        columns = (pages.c.state, pages.c.outcome, pages.c.reason)
        of_host = and_(pages.c.crawl == crawl, pages.c.url >= f"{host}/", pages.c.url < _behind(host))
        rows = unit.tx.execute(select(*columns, func.count()).where(of_host).group_by(*columns).order_by(*columns))
        return {
            "/".join(filter(None, (State(state).name.lower(), outcome, reason))): count
            for state, outcome, reason, count in rows
        }

    def begun(self, unit: Unit, crawl: str) -> bool:
        """True if anything was decided."""
        pages = self.pages
        query = select(pages.c.url).where(and_(pages.c.crawl == crawl, pages.c.state != State.FOUND)).limit(1)
        return unit.tx.execute(query).first() is not None

    def archives(self, unit: Unit, crawl: str) -> list[str]:
        """The archives in the order of the crawl: by distance, and by URL in each."""
        pages = self.pages
        query = (
            select(pages.c.archive)
            .where(and_(pages.c.crawl == crawl, pages.c.archive != ""))
            .group_by(pages.c.archive)
            .order_by(func.min(pages.c.depth), func.min(pages.c.url))
        )
        return [str(key) for key in unit.tx.execute(query).scalars()]

    def known(self, unit: Unit, crawl: str, what: str = "", after: str = "", limit: int = 100) -> list[UrlStatus]:
        """URLs behind `after`, in their order, of which `what` is true: `visited/page`, or `visited` for all."""
        pages = self.pages
        state, _, detail = what.partition("/")
        wanted = [pages.c.crawl == crawl, pages.c.url > after]
        if state:
            named = [each.value for each in State if each.name.lower() == state]
            wanted.append(pages.c.state.in_(named))
        if detail:
            wanted.append(or_(pages.c.outcome == detail, and_(pages.c.outcome == "", pages.c.reason == detail)))
        rows = unit.tx.execute(select(pages).where(and_(*wanted)).order_by(pages.c.url).limit(limit))
        return list(map(_known, rows))

    def page(self, unit: Unit, crawl: str, url: str) -> UrlStatus:
        """One URL, which may be unknown."""
        pages = self.pages
        row = unit.tx.execute(select(pages).where(and_(pages.c.crawl == crawl, pages.c.url == url))).first()
        return UrlStatus(url, 0, "unknown", 0, "") if row is None else _known(row)

    def site_digest(self, unit: Unit, crawl: str) -> str:
        """Names what a site answered: each URL that was visited, with its outcome, status and body."""
        state, after = hasher("site"), ""
        while found := self.known(unit, crawl, "visited", after, 10 * _TOGETHER):
            for each in found:
                framed(state, (each.url.encode(), each.what.encode(), b"%d" % each.status, each.digest.encode()))
            after = found[-1].url
        return named(state)

    def robots(self, unit: Unit, crawl: str, hosts: Iterable[str]) -> dict[str, RobotsAnswer]:
        """The stored robots.txt answers of these hosts."""
        table = self.hosts
        query = select(table).where(and_(table.c.crawl == crawl, table.c.host.in_(sorted(set(hosts)))))
        return {row.host: RobotsAnswer(row.host, row.status, row.body) for row in unit.tx.execute(query)}

    def answered(self, unit: Unit, crawl: str) -> list[str]:
        """The hosts that answered when they were asked for their rules."""
        table = self.hosts
        query = select(table.c.host).where(and_(table.c.crawl == crawl, table.c.status.is_not(None)))
        return [str(host) for host in unit.tx.execute(query).scalars()]

    def asked(self, unit: Unit, crawl: str, limit: int) -> tuple[list[RobotsAnswer], int]:
        """The first hosts that were asked for their rules, by name, and how many there are."""
        table = self.hosts
        of_crawl = table.c.crawl == crawl
        rows = unit.tx.execute(select(table).where(of_crawl).order_by(table.c.host).limit(limit))
        count = unit.tx.execute(select(func.count()).select_from(table).where(of_crawl)).scalar_one()
        return [RobotsAnswer(row.host, row.status, row.body) for row in rows], int(count)

    def rules_asked(self, unit: Unit, crawl: str, hosts: Iterable[str]) -> dict[str, RobotsAttempt]:
        """The time of the last request for the rules of these hosts."""
        table = self.rules
        query = select(table).where(and_(table.c.crawl == crawl, table.c.host.in_(sorted(set(hosts)))))
        return {row.host: RobotsAttempt(row.at, row.depth, row.times) for row in unit.tx.execute(query)}

    def keep_robots(self, unit: Unit, crawl: str, answers: Iterable[tuple[RobotsAnswer, RobotsAttempt]]) -> None:
        """Remember rules, instead of those that were known."""
        for answer, asked in answers:
            cause = (answer.cause or f"it was answered with {answer.status}") if unavailable(answer.status) else ""
            self.notes.keep(unit, crawl, About.RULES, {answer.host: cause})
            key = {"crawl": crawl, "host": answer.host}
            rows = ((self.hosts, {"status": answer.status, "body": answer.body}), (self.rules, asdict(asked)))
            for table, row in rows:
                unit.tx.execute(delete(table).where(and_(table.c.crawl == crawl, table.c.host == answer.host)))
                unit.tx.execute(insert(table).values(**key, **row))

    def _set(self, unit: Unit, crawl: str, url: str, **values: object) -> None:
        where = and_(self.pages.c.crawl == crawl, self.pages.c.url == url)
        unit.tx.execute(update(self.pages).where(where).values(**values))


def _behind(host: str) -> str:
    """A text that sorts after all URLs of a host, which begin with it and a slash, and before those of any other."""
    return host + chr(ord("/") + 1)


def _what(state: int, outcome: str, reason: str) -> str:
    return "/".join(filter(None, (State(state).name.lower(), outcome or reason)))


def _known(row: Any) -> UrlStatus:
    return UrlStatus(row.url, row.depth, _what(row.state, row.outcome, row.reason), row.status, row.digest)


def _row(crawl: str, url: str, depth: int) -> dict[str, object]:
    return {
        "crawl": crawl,
        "url": url,
        "depth": depth,
        "state": int(State.FOUND),
        "outcome": "",
        "reason": "",
        "status": 0,
        "archive": "",
        "digest": "",
    }
