"""Notes: what a crawl has to say of URLs in words, beside what became of them.

Promises: one note a URL and subject, the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from sqlalchemy import Column, MetaData, String, Text, and_, delete, select

from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit

_TOGETHER = 500
LEADS_TO = "leads to "
"""Before the target of a redirect."""


class About(StrEnum):
    """The subject of a note."""

    PAGE = "page"  # why there is none, or where it leads
    RULES = "rules"  # of a host: why they could not be had
    SITEMAP = "sitemap"  # what came of it


class Notes:
    def __init__(self, metadata: MetaData) -> None:
        self.table = declare(
            "crawl_notes",
            metadata,
            Column("crawl", NAME, primary_key=True),
            Column("about", String(20), primary_key=True),
            Column("url", NAME, primary_key=True),
            Column("words", Text, nullable=False),
        )

    def keep(self, unit: Unit, crawl: str, about: About, words: Mapping[str, str]) -> None:
        """By URL, instead of what was noted before; empty words are none."""
        table, urls = self.table, list(words)
        for begin in range(0, len(urls), _TOGETHER):
            of_url = table.c.url.in_(urls[begin : begin + _TOGETHER])
            unit.tx.execute(delete(table).where(and_(table.c.crawl == crawl, table.c.about == about.value, of_url)))
        rows = [
            {"crawl": crawl, "about": about.value, "url": url, "words": said} for url, said in words.items() if said
        ]
        unit.tx.insert(table, rows)

    def find(self, unit: Unit, crawl: str, about: About, urls: Iterable[str]) -> dict[str, str]:
        """The notes about these URLs."""
        table, wanted, found = self.table, list(urls), dict[str, str]()
        for begin in range(0, len(wanted), _TOGETHER):
            of_url = table.c.url.in_(wanted[begin : begin + _TOGETHER])
            of_all = and_(table.c.crawl == crawl, table.c.about == about.value, of_url)
            found |= {row.url: row.words for row in unit.tx.execute(select(table).where(of_all))}
        return found

    def first(self, unit: Unit, crawl: str, about: About, limit: int) -> dict[str, str]:
        """The first notes by URL."""
        table = self.table
        of_all = and_(table.c.crawl == crawl, table.c.about == about.value)
        rows = unit.tx.execute(select(table).where(of_all).order_by(table.c.url).limit(limit))
        return {row.url: row.words for row in rows}
