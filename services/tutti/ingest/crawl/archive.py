"""Archive: what was asked and answered, as records of WARC 1.1 (ISO 28500:2017), each compressed for itself.

Promises: an answer is kept as it came, but for chunks, which say how long it was on the way and nothing else; the same
exchange at the same time has the same bytes, and its records point at each other.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from tutti.ingest.crawl.urls import host_of
from tutti.ingest.reading.warcrecords import REFERS_TO_FILE, REFERS_TO_OFFSET, TRUNCATED

if TYPE_CHECKING:
    from tutti.ingest.crawl.fetching import Answer

IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_KEPT_AS = "X-Transfer-Encoding"
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # that of URLs (RFC 9562, appendix A)


def response(answer: Answer, at: datetime) -> bytes:
    """A response record, at an aware time. It is marked if it has only the beginning of a body."""
    return _record(
        WarcRecordType.response,
        _id(answer.url, at, "response"),
        answer.url,
        at,
        "application/http; msgtype=response",
        _head(answer) + answer.body,
        payload=answer.body,
        more={} if answer.whole else {TRUNCATED: "length"},
    )


def request(url: str, asked: Mapping[str, str], at: datetime, *, kind: str = "response") -> bytes:
    """A request record, with these headers; its answer is the record of this kind, of the same time."""
    return _record(
        WarcRecordType.request,
        _id(url, at, "request"),
        url,
        at,
        "application/http; msgtype=request",
        _request(url, asked),
        more={"WARC-Concurrent-To": f"<urn:uuid:{_id(url, at, kind)}>"},
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A response that was kept: when it came, in which file, where in it; the payload digest of its body."""

    at: datetime
    file: str
    offset: int
    digest: str


def revisit(answer: Answer, at: datetime, of: Place, profile: str) -> bytes:
    """An answer whose body was kept at an earlier visit; only the head that came now is kept."""
    return _record(
        WarcRecordType.revisit,
        _id(answer.url, at, "revisit"),
        answer.url,
        at,
        "application/http; msgtype=response",
        _head(answer),
        more={
            "WARC-Profile": profile,
            "WARC-Payload-Digest": of.digest,
            "WARC-Refers-To": f"<urn:uuid:{_id(answer.url, of.at, 'response')}>",
            "WARC-Refers-To-Target-URI": answer.url,
            "WARC-Refers-To-Date": _date(of.at),
            REFERS_TO_FILE: of.file,
            REFERS_TO_OFFSET: str(of.offset),
        },
    )


def metadata(url: str, at: datetime, fields: Mapping[str, str]) -> bytes:
    """A metadata record about a page: the page that linked to it, or why there is no answer."""
    block = "".join(f"{key}: {value}\r\n" for key, value in fields.items()).encode()
    record = _id(url, at, "metadata")
    return _record(WarcRecordType.metadata, record, url, at, "application/warc-fields", block)


def warcinfo(at: datetime, fields: Mapping[str, str]) -> bytes:
    """The first record of a file."""
    block = "".join(f"{key}: {value}\r\n" for key, value in fields.items()).encode()
    return _record(WarcRecordType.warcinfo, _id("", at, "warcinfo"), "", at, "application/warc-fields", block)


def payload_digest(body: bytes) -> str:
    """As WARC writes it: SHA-1 in base 32, to be compared, not trusted."""
    return f"sha1:{base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()}"


def read_response(record: bytes) -> Answer | None:
    """The answer of a response as `response` wrote it; None where that is not what these bytes are."""
    # Slow to import, and of no use to those who read an archive as pages.
    from tutti.ingest.crawl.fetching import Answer

    try:
        found = next(ArchiveIterator(io.BytesIO(record), parse_http=False))
        head, _, body = found.reader.read().partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        version, code, reason = [*status.split(" ", 2), ""][:3]
        pairs = (line.partition(": ") for line in lines)
        headers = tuple(("Transfer-Encoding" if key == _KEPT_AS else key, value) for key, _, value in pairs)
        whole = TRUNCATED not in found.headers
        return Answer(found.headers["WARC-Target-URI"], version, int(code), reason, headers, body, whole)
    except (OSError, ValueError, KeyError, StopIteration):
        return None


def _record(
    kind: WarcRecordType,
    name: uuid.UUID,
    url: str,
    at: datetime,
    content_type: str,
    block: bytes,
    *,
    payload: bytes | None = None,
    more: Mapping[str, str] | None = None,
) -> bytes:
    record = WarcRecord()
    record.init_headers(kind, f"uuid:{name}".encode())
    record.headers["WARC-Date"] = _date(at)
    if url:
        record.headers["WARC-Target-URI"] = url
    for key, value in (more or {}).items():
        record.headers[key] = value
    if payload is not None:
        record.headers["WARC-Payload-Digest"] = payload_digest(payload)
    record.headers["Content-Type"] = content_type
    record.set_bytes_content(block)
    written = io.BytesIO()
    record.write(written, checksum_data=True)
    return gzip.compress(written.getvalue(), compresslevel=6, mtime=0)


def _date(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _id(url: str, at: datetime, kind: str) -> uuid.UUID:
    return uuid.uuid5(_NAMESPACE, f"{kind} {at.isoformat()} {url}")


def _head(answer: Answer) -> bytes:
    """The status line and the headers; chunks were joined, so the header that announced them has another name."""
    lines = [f"{answer.version} {answer.status} {answer.reason}".rstrip()]
    lines += [f"{_KEPT_AS if key.lower() == 'transfer-encoding' else key}: {value}" for key, value in answer.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _request(url: str, asked: Mapping[str, str]) -> bytes:
    host = host_of(url)
    lines = [f"GET {url.removeprefix(host)} HTTP/1.1", f"Host: {host.partition('://')[2]}"]
    lines += [f"{key}: {value}" for key, value in asked.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
