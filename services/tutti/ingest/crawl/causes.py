"""Causes: why URLs brought no page, in words that say what to do.

Promises: only reads; of a redirect it is told where it leads in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tutti.chassis.store.unit import Unit
from tutti.ingest.crawl.frontier import MAX_REDIRECTS, Frontier, UrlStatus
from tutti.ingest.crawl.notes import LEADS_TO, About
from tutti.ingest.crawl.urls import host_of

UNAVAILABLE = "refused/robots_unavailable"
MOST_TOLD = 5


class Causes:
    def __init__(self, frontier: Frontier, crawl: str) -> None:
        self._frontier, self._crawl = frontier, crawl

    def of_pages(self, unit: Unit, pages: Sequence[UrlStatus]) -> dict[str, str]:
        """By URL, where there is something to say."""
        notes = self._frontier.notes
        found = notes.find(unit, self._crawl, About.PAGE, (page.url for page in pages))
        refused = [page.url for page in pages if page.what == UNAVAILABLE]
        rules = notes.find(unit, self._crawl, About.RULES, sorted({host_of(url) for url in refused}))
        return found | {url: f"no robots.txt: {rules[host]}" for url in refused if (host := host_of(url)) in rules}

    def of_seeds(self, unit: Unit, seeds: Iterable[str]) -> list[str]:
        """The outcome of each seed, or of its redirect target; the first few that differ."""
        told = dict.fromkeys(filter(None, (self._of_seed(unit, seed) for seed in list(seeds)[:100])))
        return list(told)[:MOST_TOLD]

    def _of_seed(self, unit: Unit, seed: str) -> str:
        *_, last = self._way(unit, seed)
        page, cause = last
        begun = f"{seed} leads to {page.url}" if page.url != seed else seed
        if page.what == "left/elsewhere":
            return f"{begun}, which lies elsewhere: begin there, or name it in input.crawl.within"
        return f"{begun}: {cause or page.what}{f' {page.status}' if page.status and not cause else ''}"

    def _way(self, unit: Unit, url: str) -> Iterator[tuple[UrlStatus, str]]:
        """A URL and where its redirects lead, with what is to be said of each."""
        for _ in range(MAX_REDIRECTS + 1):
            page = self._frontier.page(unit, self._crawl, url)
            cause = self.of_pages(unit, [page]).get(url, "")
            yield page, cause
            if not cause.startswith(LEADS_TO):
                return
            url = cause.removeprefix(LEADS_TO)
