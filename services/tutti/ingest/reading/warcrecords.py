"""WARC: the pages of a crawl, as the web answered (ISO 28500).

Responses and resources become pages, conversions become texts; requests, metadata and the resources in which wget
keeps its log (`metadata://`) are no documents. A revisit is a page in a crawl of our own, whose record says where the
body is; in an archive of others it is a rejection. An answer that is no success, or no text, is a rejection by that
reason.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from tutti.corpus.files.budgets import Budget, Spent
from tutti.ingest.encoding.sniffing import TEXTS, is_pdf, shown_type
from tutti.ingest.failures import Failure, FetchFailed
from tutti.ingest.reading.containers import Page, Record, RecordOptions, Text, source_of
from tutti.ingest.reading.encodings import known, undone
from tutti.ingest.reading.rejections import Reason, Rejection, over_budget
from tutti.ingest.reading.warcends import is_cut

_KINDS = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion | WarcRecordType.revisit
REFERS_TO_FILE, REFERS_TO_OFFSET = "WARC-Refers-To-Filename", "WARC-Refers-To-File-Offset"
"""Headers with the location of the record that a revisit refers to: not in the standard, but other crawlers write them
too.
"""
TRUNCATED = "WARC-Truncated"
OK = 200
_CUT = ": the file is cut"
_ENCODED = b"-encoding"
_END = re.compile(rb"\n\r?\n")
_LINE = re.compile(rb"\r?\n")
_CHUNKED = re.compile(rb"^transfer-encoding:[ \t]*chunked[ \t]*\r?\n", re.IGNORECASE | re.MULTILINE)
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,16}[ \t]*(?:;[^\r\n]{0,1000})?\r?\n")
MOST_HEAD = 1 << 18
"""Maximum size of an HTTP head: servers accept a tenth. Its lines become objects, larger than short lines."""
_GZIP = b"\x1f\x8b"
_HEAD = (
    b"WARC/1.1\r\nWARC-Type: response\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
)


def read_records(path: Path, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The pages of an archive, in its order; a place is the number of the record among those that can be pages."""
    return _read(path, source, wanted, None)


def read_crawled(path: Path, wanted: RecordOptions, earlier: Mapping[str, Path]) -> Iterator[Record]:
    """The same for what a crawl kept, revisits too; `earlier` archives by their names hold the bodies of those.

    No place is named: archives of the same site give the same records, and so do revisits and what they stand for.
    """
    return _read(path, "", wanted, earlier)


def _read(path: Path, source: str, wanted: RecordOptions, earlier: Mapping[str, Path] | None) -> Iterator[Record]:
    number, last, told = 0, 0, False
    try:
        with path.open("rb") as file:
            budget = Budget(path)
            for record in ArchiveIterator(file, parse_http=False):
                budget.take(record.content_length)
                if not record.record_type & _KINDS:
                    continue
                number += 1
                place, last = f"{source}:{number}" if source else "the answer", record.stream_pos
                if record.record_type == WarcRecordType.revisit:
                    made = _revisited(record, place, wanted, earlier)
                else:
                    made = _record(record, place, wanted)
                told = isinstance(made, Rejection) and made.detail.endswith(_CUT)
                yield made
                del made  # before the next one is there
            if not told and is_cut(path, last):
                raise ValueError("it ends within a record")
            if not number and path.stat().st_size:
                yield Rejection(source, Reason.NO_TEXT, "an archive without a response, a resource or a conversion")
    except Spent as spent:
        yield over_budget(source, f"record {number}", spent)
    except (OSError, ValueError) as error:
        detail = (
            f"behind record {number} the file cannot be read ({error}): it is cut, damaged or compressed in mixed ways"
        )
        yield Rejection(source, Reason.DAMAGED, detail)


def _revisited(record: WarcRecord, place: str, wanted: RecordOptions, earlier: Mapping[str, Path] | None) -> Record:
    """The page that an earlier crawl kept."""
    source = source_of(record.headers.get("WARC-Target-URI"), place)
    if earlier is None:
        answer = source_of(record.headers.get("WARC-Refers-To-Target-URI"), source)
        when = source_of(record.headers.get("WARC-Refers-To-Date"), "an earlier day")
        detail = f"{place} is a revisit, without a body: it refers to the answer of {answer[:200]} on {when[:40]}"
        return Rejection(source, Reason.NO_TEXT, detail)
    file, offset = record.headers.get(REFERS_TO_FILE) or "", record.headers.get(REFERS_TO_OFFSET) or ""
    if file not in earlier or not offset.isdecimal():
        return Rejection(source, Reason.DAMAGED, f"{place} refers to {file[:200] or 'no file'}, which is not there")
    with earlier[file].open("rb") as archive:
        archive.seek(int(offset))
        found = next(iter(ArchiveIterator(archive, record_types=WarcRecordType.response, parse_http=False)), None)
        if found is None or found.headers.get("WARC-Target-URI") != record.headers.get("WARC-Target-URI"):
            return Rejection(source, Reason.DAMAGED, f"{place} refers to another record of {file[:200]}")
        return _record(found, place, wanted)


def _record(record: WarcRecord, place: str, wanted: RecordOptions) -> Record:
    if not (record.headers.get("Content-Length") or "").strip().isdecimal():
        return Rejection(place, Reason.DAMAGED, f"{place} ends before it says how long it is{_CUT}")
    source = source_of(record.headers.get("WARC-Target-URI"), place)
    if source.startswith("metadata:"):
        return Rejection(source, Reason.NO_TEXT, f"{place} is a log or the arguments of the crawler, not a page")
    size = record.content_length
    if size > wanted.max_bytes:
        return Rejection(source, Reason.TOO_LARGE, f"{size} bytes at {place}, at most {wanted.max_bytes} are read")
    block = record.reader.read(size) if size else b""
    if len(block) < size:
        return Rejection(source, Reason.DAMAGED, f"{place} says {size} bytes and has {len(block)}{_CUT}")
    if record.record_type == WarcRecordType.conversion:
        made: Record = Text(source, block.decode("utf-8", "replace"), "")
    elif record.is_http:
        made = _answer(source, block, place, wanted)
    else:
        made = _page(source, block, record.headers.get("Content-Type") or "", "", place)
    if TRUNCATED in record.headers and not isinstance(made, Rejection):
        return Rejection(source, Reason.DAMAGED, f"{place} is the beginning of an answer: no more of it was kept")
    return made


def _answer(source: str, block: bytes, place: str, wanted: RecordOptions) -> Record:
    """The page in an HTTP answer, its transfer and content encodings undone."""
    if len(block) > MOST_HEAD and not _END.search(block, 0, MOST_HEAD):
        return Rejection(source, Reason.TOO_LARGE, f"the HTTP head at {place} is longer than {MOST_HEAD} bytes")
    head, end, plain = _parted(block)
    # Most bodies are sent as they are: then the head alone is parsed.
    is_plain = end != b"" and head.startswith(b"HTTP/") and _ENCODED not in head.lower()
    parsed = head + end if is_plain else _truthful(head + end, plain) + plain
    try:
        answer = _http(parsed, "transfer")
        status = answer.http_headers.status_code if answer.http_headers else None
        if status != OK:
            return Rejection(source, Reason.NOT_OK, f"{place} has status {status or 'unknown'}")
        body = plain if is_plain else _decoded(answer, parsed, wanted)
    except FetchFailed as error:
        if error.failure is Failure.TOO_LARGE:
            return Rejection(source, Reason.TOO_LARGE, f"{place} is more than {wanted.max_bytes} bytes once decoded")
        return Rejection(source, Reason.DAMAGED, f"{place} cannot be decoded: {error.detail}")
    except (OSError, ValueError, StopIteration) as error:
        return Rejection(source, Reason.DAMAGED, f"{place} cannot be decoded: {error}")
    return _page(source, body, answer.http_content_type or "", answer.http_charset or "", place)


def _parted(block: bytes) -> tuple[bytes, bytes, bytes]:
    """Head, what ends it, and body. A line of the head may end without CR (RFC 9112, section 2.2)."""
    end = _END.search(block)
    if end is None:
        return block, b"", b""
    head = block[: end.start()].removesuffix(b"\r")
    return _LINE.sub(b"\r\n", head), b"\r\n\r\n", block[end.end() :]


def _truthful(head: bytes, body: bytes) -> bytes:
    """The head without the chunks that it names where there are none: they were joined before the body was written."""
    return head if _CHUNK.match(body) else _CHUNKED.sub(b"", head)


def _http(block: bytes, auto_decode: Literal["transfer", "all"]) -> WarcRecord:
    return next(ArchiveIterator(io.BytesIO(_HEAD % len(block) + block + b"\r\n\r\n"), auto_decode=auto_decode))


def _decoded(answer: WarcRecord, block: bytes, wanted: RecordOptions) -> bytes:
    """The body of an answer without its encodings. Of what is no text the beginning may be all that was kept.

    Raises OSError, ValueError, FetchFailed.
    """
    encoding = answer.http_headers.get("Content-Encoding") or ""
    ours, part = known(encoding), _kind(answer.http_content_type or "") not in TEXTS
    body = (answer if ours else _http(block, "all")).reader.read(wanted.max_bytes + 1)
    if len(body) > wanted.max_bytes:
        raise FetchFailed(Failure.TOO_LARGE, encoding)
    if encoding.strip().lower() in ("gzip", "x-gzip") and not body.startswith(_GZIP):
        return body  # undone before it was written: many archives name it still
    return undone(body, encoding, wanted.max_bytes, part=part) if ours else body


def _page(source: str, body: bytes, content_type: str, charset: str, place: str) -> Record:
    kind = _kind(content_type)
    if kind == "application/pdf" or is_pdf(body):
        return Rejection(source, Reason.PDF, f"{place} is a PDF, expected text: convert it to text")
    if kind not in TEXTS:
        return Rejection(source, Reason.BINARY, f"{place} is {shown_type(kind) or 'of no known type'}, expected text")
    return Page(source, body, charset, kind)


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
