"""Containers: files that hold many documents, read one record at a time.

JSON lines (`.jsonl`, `.ndjson`), JSON (`.json`) and WARC (`.warc`), plain or `.gz` or `.zst`, and Parquet (`.parquet`),
told by their names; tables (`.csv`, `.tsv`) and ARC are refused. Promises: whatever is in the file, memory holds a
record and never the file, but for a list in JSON; what cannot be read is a rejection that says where it stood, and no
record before it is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.ingest.reading.filenames import LINES, unpacked
from tutti.ingest.reading.rejections import Reason, Rejection

BAD_RECORDS, BAD_SHARE = 1_000, 0.5
"""A file of which this many records, and over this share, are no records is not read further: it is something else.

A record that is one and has no text is left out by itself, however many there are."""


@dataclass(frozen=True, slots=True)
class Page:
    """The bytes of a page and where they are from.

    `declared`: the character set that came with them, `kind`: the content type, as `text/html`; empty where none did.
    """

    path: str
    data: bytes
    declared: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A text that needs no extraction; `path` is its source: a URL, or the file and its place in it."""

    path: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """`max_bytes` of a record; `text_field` is the column, or the field of a JSON object, that holds the text."""

    max_bytes: int
    text_field: str


Record = Page | Text | Rejection
Reader = Callable[[Path, str, RecordOptions], Iterator[Record]]
MAX_URL = 2_000


def source_of(url: object, place: str) -> str:
    """The source of a record that may name its URL; `place` where that is none that can be shown."""
    named = url.strip().removeprefix("<").removesuffix(">") if isinstance(url, str) else ""
    return named if 0 < len(named) <= MAX_URL and named.isprintable() else place


def reader_of(path: str) -> Reader | None:
    """The reader of a file by its name; None for a file that is a page itself."""
    # Slow to import, and needed by few.
    name = unpacked(path)
    if name.endswith(LINES):
        from tutti.ingest.reading.jsonlines import read_json_lines

        return read_json_lines
    if name.endswith(".json"):
        from tutti.ingest.reading.jsonlines import read_json

        return read_json
    if name.endswith((".csv", ".tsv")):
        return _no_table
    if path.lower().endswith(".parquet"):
        from tutti.ingest.reading.parquetrows import read_rows

        return read_rows
    if name.endswith(".warc"):
        from tutti.ingest.reading.warcrecords import read_records

        return read_records
    return _no_arc if name.endswith(".arc") else None


def _no_arc(_: Path, source: str, __: RecordOptions) -> Iterator[Record]:
    """ARC, the format before WARC, is headers and bodies in a row: as a page it would be one text of both."""
    yield Rejection(source, Reason.BINARY, "an ARC archive, expected WARC: convert it, as `warcio recompress` does")


def _no_table(_: Path, source: str, __: RecordOptions) -> Iterator[Record]:
    """A table would be one text of all its cells."""
    yield Rejection(source, Reason.TABLE, "a table, expected JSON lines or Parquet: convert it, or name it .txt")


def patiently(records: Iterator[Record], source: str) -> Iterator[Record]:
    """The records of a file, until so many are bad that the file cannot be what its name says."""
    bad = 0
    for seen, record in enumerate(records, 1):
        yield record
        bad += isinstance(record, Rejection) and record.reason is Reason.MALFORMED
        if bad >= BAD_RECORDS and bad > BAD_SHARE * seen:
            detail = (
                f"{bad} of the first {seen} records are none of such a file; the rest was not read: repair the file"
            )
            yield Rejection(source, Reason.DAMAGED, detail)
            return
