"""Archives are read back by readers of others, record by record, and by our own."""

import gzip
import io
from datetime import UTC, datetime
from pathlib import Path

from fastwarc.warc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.checker import Checker

from tutti.ingest.crawl.archive import (
    IDENTICAL,
    NOT_MODIFIED,
    Place,
    metadata,
    payload_digest,
    read_response,
    request,
    response,
    revisit,
    warcinfo,
)
from tutti.ingest.crawl.fetching import Answer
from tutti.ingest.reading import shards
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.rejections import Reason
from tutti.ingest.reading.warcrecords import REFERS_TO_FILE, REFERS_TO_OFFSET

AT = datetime(2026, 11, 21, 12, 30, 15, 123456, tzinfo=UTC)
URL = "https://a.example:8443/a?b=%C3%A9"
PAGE = b"<!doctype html><title>A page</title><main><p>Some words of a page.</p></main>"
HEADERS = (
    ("Content-Type", "text/html"),
    ("Content-Encoding", "gzip"),
    ("Transfer-Encoding", "chunked"),
    ("X-A", "caf\u00e9"),
)
BODY = gzip.compress(PAGE, mtime=0)
BEFORE = AT.replace(year=2025)
ANSWER = Answer(URL, "HTTP/1.1", 200, "OK", HEADERS, BODY)
FILE = b"".join(
    [
        warcinfo(AT, {"software": "tutti", "robots": "obey"}),
        response(ANSWER, AT),
        request(URL, {"User-Agent": "tutti-test"}, AT),
        revisit(ANSWER, AT, Place(BEFORE, "b.warc.gz", 7, payload_digest(BODY)), IDENTICAL),
        metadata(URL, AT, {"via": "https://a.example/", "hops": "1"}),
    ]
)


def test_fastwarc_reads_every_record_with_digests_that_hold() -> None:
    records = list(ArchiveIterator(io.BytesIO(FILE), parse_http=False))
    seen = []
    for record in ArchiveIterator(io.BytesIO(FILE), parse_http=False):
        assert record.verify_block_digest()
        seen.append(record.headers.get("WARC-Type"))
    assert seen == ["warcinfo", "response", "request", "revisit", "metadata"]
    assert len(records) == 5


def test_warcio_reads_every_record(tmp_path: Path) -> None:
    found = {}
    for record in WarcioIterator(io.BytesIO(FILE)):
        found[record.rec_type] = (record.rec_headers, record.http_headers, record.content_stream().read())
    assert set(found) == {"warcinfo", "response", "request", "revisit", "metadata"}
    headers, http, body = found["response"]
    assert body == PAGE
    assert headers.get_header("WARC-Target-URI") == URL
    assert headers.get_header("WARC-Date") == "2026-11-21T12:30:15.123456Z"
    assert (http.get_statuscode(), http.get_header("X-Transfer-Encoding")) == ("200", "chunked")
    assert found["request"][0].get_header("WARC-Concurrent-To") == headers.get_header("WARC-Record-ID")
    assert found["request"][1].get_header("Host") == "a.example:8443"
    before = found["revisit"][0]
    assert before.get_header("WARC-Profile") == IDENTICAL
    assert before.get_header("WARC-Refers-To-Date") == "2025-11-21T12:30:15.123456Z"
    assert before.get_header(REFERS_TO_FILE) == "b.warc.gz"
    assert before.get_header(REFERS_TO_OFFSET) == "7"
    named = WarcioIterator(io.BytesIO(response(ANSWER, BEFORE)))
    assert before.get_header("WARC-Refers-To") == next(iter(named)).rec_headers.get_header("WARC-Record-ID")
    assert found["metadata"][2] == b"via: https://a.example/\r\nhops: 1\r\n"
    (tmp_path / "a.warc.gz").write_bytes(FILE)
    checked = Checker(type("Command", (), {"inputs": [str(tmp_path / "a.warc.gz")], "verbose": False})())
    checked.process_all()
    assert not checked.exit_value


def test_our_own_reader_makes_the_page_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(FILE)
    reading = shards.Reading(tmp_path, 1 << 20, 0)
    made, again = [extract(each) for file in shards.files(reading) for each in shards.records(file, reading)]
    assert (getattr(made, "source", ""), getattr(made, "text", "")) == (URL, "Some words of a page.")
    assert getattr(again, "reason", None) is Reason.NO_TEXT  # the revisit, whose answer is not of this folder


def test_the_same_answer_has_the_same_bytes() -> None:
    assert response(ANSWER, AT) == response(ANSWER, AT)
    assert response(ANSWER, AT) != response(ANSWER, BEFORE)


def test_an_answer_is_read_back_from_its_record() -> None:
    assert read_response(response(ANSWER, AT) + b"what follows") == ANSWER
    for other in (b"", BODY, response(ANSWER, AT)[:40], metadata(URL, AT, {})):
        assert read_response(other) is None


def test_a_revisit_says_which_kind_it_is() -> None:
    place = Place(BEFORE, "b.warc.gz", 7, payload_digest(BODY))
    assert revisit(ANSWER, AT, place, NOT_MODIFIED) != revisit(ANSWER, AT, place, IDENTICAL)
