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
from datetime import datetime

from fastwarc.warc import WarcRecord, WarcRecordType

from tutti.ingest.crawl.fetching import Answer
from tutti.ingest.crawl.urls import host_of

REVISIT = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_KEPT_AS = "X-Transfer-Encoding"
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # that of URLs (RFC 9562, appendix A)


def exchange(answer: Answer, asked: Mapping[str, str], at: datetime) -> bytes:
    """Request and response; `asked` are the headers that were sent, `at` an aware time."""
    response = _id(answer.url, at, "response")
    return _record(
        WarcRecordType.response,
        response,
        answer.url,
        at,
        "application/http; msgtype=response",
        _head(answer) + answer.body,
        payload=answer.body,
    ) + _record(
        WarcRecordType.request,
        _id(answer.url, at, "request"),
        answer.url,
        at,
        "application/http; msgtype=request",
        _request(answer.url, asked),
        more={"WARC-Concurrent-To": f"<urn:uuid:{response}>"},
    )


def revisit(answer: Answer, at: datetime, *, digest: str) -> bytes:
    """An answer whose body, of this payload digest, was kept at an earlier visit; only its head is kept now."""
    return _record(
        WarcRecordType.revisit,
        _id(answer.url, at, "revisit"),
        answer.url,
        at,
        "application/http; msgtype=response",
        _head(answer),
        more={"WARC-Profile": REVISIT, "WARC-Payload-Digest": digest},
    )


def metadata(url: str, at: datetime, fields: Mapping[str, str]) -> bytes:
    """What is known of a page beside its answer: from where it was found, or why there is none."""
    block = "".join(f"{key}: {value}\r\n" for key, value in fields.items()).encode()
    record = _id(url, at, "metadata")
    return _record(WarcRecordType.metadata, record, url, at, "application/warc-fields", block)


def warcinfo(at: datetime, fields: Mapping[str, str]) -> bytes:
    """What stands at the head of a file."""
    block = "".join(f"{key}: {value}\r\n" for key, value in fields.items()).encode()
    return _record(WarcRecordType.warcinfo, _id("", at, "warcinfo"), "", at, "application/warc-fields", block)


def payload_digest(body: bytes) -> str:
    """As WARC writes it: SHA-1 in base 32, to be compared, not trusted."""
    return f"sha1:{base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()}"


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
    record.headers["WARC-Date"] = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
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
