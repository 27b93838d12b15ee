"""Answers that crawls stored: their WARC records, and their ETag and Last-Modified validators.

Promises: a row names a record of WARC that was stored before; an answer that had not changed names the record of the
crawl that read it, however many crawls ago that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import BigInteger, Column, MetaData, String, Text, and_, func, select

from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit
from tutti.ingest.crawl.archive import read_response
from tutti.ingest.crawl.fetching import Answer
from tutti.records.canonical import bytes_digest

_TOGETHER = 500
_MOST_VALIDATOR = 1_000
"""Characters of one that is sent back."""
_OF_THE_BODY = ("content-length", "content-encoding", "content-type", "transfer-encoding", "content-range")


class Again(StrEnum):
    """The way in which an answer was recognised as unchanged; READ is one that was not."""

    READ = ""
    NOT_MODIFIED = "not_modified"  # its host said so, and sent nothing
    IDENTICAL = "identical"  # it was sent, and has the same body


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer of status 200: `size` bytes at `offset` of the blob `archive` are its record, which has the time `at`.

    `digest` and `nbytes` are those of the body as it came, `form` is its type and its encoding.
    """

    archive: str
    offset: int
    size: int
    at: str
    digest: str
    nbytes: int
    form: str
    etag: str
    modified: str

    @property
    def conditions(self) -> dict[str, str]:
        """Headers that ask for the answer only if it is another one (RFC 9110, section 13)."""
        asked = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {key: value for key, value in asked.items() if value}


@dataclass(frozen=True, slots=True)
class Earlier:
    """The stored answer of an earlier crawl for a URL; `record` is empty if its host sent no validator."""

    kept: StoredResponse
    record: bytes

    def answer(self) -> Answer | None:
        """The answer as it came then; None where the record is not what was kept."""
        found = read_response(self.record) if self.record else None
        return found if found is not None and bytes_digest(found.body) == self.kept.digest else None


def kept(answer: Answer, size: int, at: str) -> StoredResponse:
    """The description of an answer whose record of `size` bytes is not yet stored."""
    digest, nbytes = bytes_digest(answer.body), len(answer.body)
    return StoredResponse("", 0, size, at, digest, nbytes, form(answer), *_validators(answer))


def form(answer: Answer) -> str:
    """The format of a body: answers of the same body and another format are not the same."""
    return "\n".join(answer.header(name).strip().lower() for name in ("Content-Type", "Content-Encoding"))


def freshened(before: Answer, now: Answer) -> Answer:
    """An answer that was not modified, with what the host says of it now (RFC 9111, section 3.2)."""
    said = [pair for pair in now.headers if pair[0].lower() not in _OF_THE_BODY]
    names = {key.lower() for key, _ in said}
    held = [pair for pair in before.headers if pair[0].lower() not in names]
    return Answer(now.url, before.version, before.status, before.reason, (*held, *said), before.body)


def _validators(answer: Answer) -> Iterator[str]:
    for name in ("ETag", "Last-Modified"):
        value = answer.header(name).strip()
        yield value if len(value) <= _MOST_VALIDATOR and value.isascii() and value.isprintable() else ""


@dataclass(frozen=True, slots=True)
class Saved:
    """Answers that were known again; `nbytes` were not sent."""

    not_modified: int = 0
    identical: int = 0
    nbytes: int = 0


class Answers:
    def __init__(self, metadata: MetaData) -> None:
        self.table = declare(
            "crawl_answers",
            metadata,
            Column("crawl", NAME, primary_key=True),
            Column("url", NAME, primary_key=True),
            Column("again", String(20), nullable=False),
            Column("archive", Text, nullable=False),
            Column("offset", BigInteger, nullable=False),
            Column("size", BigInteger, nullable=False),
            Column("at", String(40), nullable=False),
            Column("digest", String(100), nullable=False),
            Column("nbytes", BigInteger, nullable=False),
            Column("form", Text, nullable=False),
            Column("etag", Text, nullable=False),
            Column("modified", Text, nullable=False),
        )

    def keep(self, unit: Unit, crawl: str, rows: Iterable[tuple[str, Again, StoredResponse]]) -> None:
        """Remember the answers of URLs that have none yet."""
        found = [{"crawl": crawl, "url": url, "again": again.value, **asdict(each)} for url, again, each in rows]
        unit.tx.insert(self.table, found)

    def find(self, unit: Unit, crawl: str, urls: Sequence[str]) -> dict[str, StoredResponse]:
        """The stored answers of a crawl for these URLs, by URL."""
        table, found = self.table, {}
        for begin in range(0, len(urls), _TOGETHER):
            wanted = and_(table.c.crawl == crawl, table.c.url.in_(urls[begin : begin + _TOGETHER]))
            for row in unit.tx.execute(select(table).where(wanted)):
                found[row.url] = StoredResponse(**{name: row._mapping[name] for name in StoredResponse.__slots__})
        return found

    def saved(self, unit: Unit, crawl: str) -> Saved:
        table = self.table
        query = (
            select(table.c.again, func.count(), func.sum(table.c.nbytes))
            .where(and_(table.c.crawl == crawl, table.c.again != Again.READ.value))
            .group_by(table.c.again)
        )
        found = {again: (int(count), int(nbytes)) for again, count, nbytes in unit.tx.execute(query)}
        (not_modified, nbytes), (identical, _) = (found.get(each.value, (0, 0)) for each in Again if each)
        return Saved(not_modified, identical, nbytes)

    def elsewhere(self, unit: Unit, crawl: str) -> list[str]:
        """The archives of earlier crawls that hold answers of this one, sorted."""
        table = self.table
        wanted = and_(table.c.crawl == crawl, table.c.again != Again.READ.value)
        return sorted(str(key) for key in unit.tx.execute(select(table.c.archive).where(wanted).distinct()).scalars())
