"""Archives of others: what is told of their records, and which of these are pages."""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tutti.ingest.reading.containers import Page, Record, RecordOptions, reader_of
from tutti.ingest.reading.containers_test import answer, record
from tutti.ingest.reading.rejections import Reason, Rejection
from tutti.ingest.reading.warcrecords import read_records

WANTED = RecordOptions(1 << 20, "text")
URL = "https://a.example/"
BODY = b"<p>" + b" and ".join(b"%d" % number for number in range(40))


def records(folder: Path, *written: bytes, name: str = "a.warc") -> Sequence[Record]:
    (folder / name).write_bytes(b"".join(written))
    return list(read_records(folder / name, name, WANTED))


def damages(found: Sequence[Record]) -> int:
    """How often damage is told, which is all that is."""
    refused = [each for each in found if isinstance(each, Rejection)]
    assert all(each.reason is Reason.DAMAGED for each in refused)
    return len(refused)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (b"Image/PNG; a=b", "image/png"),
        (b"image/\x1b]0;x", "image/0"),
        (b"\xc2\x9b2Jimage/svg+xml", "2jimage/svg+xml"),
        (b"<b>", "b"),
        (b"\x1b[]", "of no known type"),
        (b"a" * 300, "a" * 100),
    ],
)
def test_a_content_type_is_told_by_the_characters_that_one_can_have(kind: bytes, told: str, tmp_path: Path) -> None:
    found = records(tmp_path, answer(URL, b"\x89PNG", headers=b"Content-Type: " + kind + b"\r\n"))
    assert found == [Rejection(URL, Reason.BINARY, f"a.warc:1 is {told}, expected text")]


def test_the_log_and_the_arguments_that_wget_keeps_are_no_pages(tmp_path: Path) -> None:
    written = [
        record("resource", f"metadata://gnu.org/software/wget/warc/{name}", b"FINISHED --2026--", "text/plain")
        for name in ("MANIFEST.txt", "wget_arguments.txt", "wget.log")
    ]
    found = records(tmp_path, answer(URL, BODY), *written)
    assert [isinstance(each, Page) for each in found] == [True, False, False, False]
    assert {each.reason for each in found if isinstance(each, Rejection)} == {Reason.NO_TEXT}


@pytest.mark.parametrize("name", ["a.arc", "a.ARC.gz"])
def test_an_arc_archive_is_refused_with_the_way_to_convert_it(name: str, tmp_path: Path) -> None:
    head = b"filedesc://a.arc 0.0.0.0 20261123000000 text/plain 76\n1 0 Tool\n"
    (tmp_path / name).write_bytes(head + b"http://a.example/ 1.2.3.4 20261123000000 text/html 99\n" + BODY)
    reader = reader_of(name)
    assert reader is not None
    (found,) = reader(tmp_path / name, name, WANTED)
    assert isinstance(found, Rejection)
    assert (found.path, found.reason) == (name, Reason.BINARY)
    assert "expected WARC" in found.detail


def test_an_archive_that_ends_within_a_record_is_damaged_wherever_it_was_cut(tmp_path: Path) -> None:
    first, second = answer(f"{URL}a", BODY), answer(f"{URL}b", BODY)
    between = record("request", f"{URL}b", b"GET /b HTTP/1.1\r\n\r\n", "application/http; msgtype=request")
    for pack, name in ((bytes, "a.warc"), (gzip.compress, "a.warc.gz")):
        for behind in (second, between):
            whole, packed = pack(first), pack(behind)
            end = packed.index(behind[-4:]) if pack is bytes else len(packed)
            for cut in range(1, end):
                page, *others = records(tmp_path, whole, packed[:cut], name=name)
                assert isinstance(page, Page)
                assert damages(others) == 1, (name, cut)
            assert all(isinstance(each, Page) for each in records(tmp_path, whole, packed, name=name))


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def test_an_archive_of_zstd_is_whole_unless_its_last_frame_is_cut(tmp_path: Path) -> None:
    first, second = answer(f"{URL}a", BODY), answer(f"{URL}b", BODY)
    apart, together = zstd(first) + zstd(second), zstd(first + second)
    for whole in (apart, together):
        assert [type(each) for each in records(tmp_path, whole, name="a.warc.zst")] == [Page, Page]
        for cut in range(1, len(zstd(second))):
            found = records(tmp_path, whole[:-cut], name="a.warc.zst")
            assert damages([each for each in found if not isinstance(each, Page)]) == 1, cut
            assert len(found) == (2 if whole is apart else 1), cut


@pytest.mark.parametrize("cut", [1, 5, 12, 40, -1])
def test_an_archive_that_ends_within_its_first_record_is_cut_and_not_empty(cut: int, tmp_path: Path) -> None:
    assert damages(records(tmp_path, gzip.compress(answer(URL, b"<p>x"))[:cut], name="a.warc.gz")) == 1


@pytest.mark.parametrize("count", [1, 2, 300])
def test_an_archive_that_was_compressed_as_a_whole_is_read_and_is_damaged_where_it_is_cut(
    count: int, tmp_path: Path
) -> None:
    noise = random.Random(1)
    packed = gzip.compress(b"".join(answer(f"{URL}{n}", noise.randbytes(999).hex().encode()) for n in range(count)))
    assert [type(each) for each in records(tmp_path, packed, name="a.warc.gz")] == [Page] * count
    assert damages(records(tmp_path, packed[:-9], name="a.warc.gz")) == 1


def test_a_cut_behind_a_page_that_is_damaged_itself_is_told_too(tmp_path: Path) -> None:
    lies = answer(URL, b"\x1f\x8bno gzip", headers=b"Content-Encoding: gzip\r\n")
    assert damages(records(tmp_path, lies)) == 1
    assert damages(records(tmp_path, lies, b"WARC/1.1\r\nWARC-Ty")) == 2


@pytest.mark.parametrize("behind", [b"\r\n\r\n", b"\n" * 99, b""])
def test_empty_lines_at_the_end_of_an_archive_cut_nothing(behind: bytes, tmp_path: Path) -> None:
    assert [type(each) for each in records(tmp_path, answer(URL, BODY).rstrip(), behind)] == [Page]


@pytest.mark.parametrize("why", ["length", "time", "disconnect", "unspecified"])
@pytest.mark.parametrize("kind", ["response", "conversion"])
def test_a_page_of_which_a_crawler_kept_the_beginning_is_damaged(kind: str, why: str, tmp_path: Path) -> None:
    made = answer(URL, BODY) if kind == "response" else record(kind, URL, BODY, "text/plain")
    marked = made.replace(b"WARC-Date", f"WARC-Truncated: {why}\r\nWARC-Date".encode(), 1)
    (found,) = records(tmp_path, marked)
    assert isinstance(found, Rejection)
    assert (found.path, found.reason) == (URL, Reason.DAMAGED)


def test_what_is_no_page_is_told_as_that_also_where_it_is_not_whole(tmp_path: Path) -> None:
    made = answer(URL, b"\x89PNG", headers=b"Content-Type: image/png\r\n")
    (found,) = records(tmp_path, made.replace(b"WARC-Date", b"WARC-Truncated: length\r\nWARC-Date", 1))
    assert isinstance(found, Rejection)
    assert found.reason is Reason.BINARY


@pytest.mark.parametrize(("line", "end"), [(b"\n", b"\n"), (b"\n", b"\r\n"), (b"\r\n", b"\n")])
@pytest.mark.parametrize("packed", [True, False])
def test_a_head_whose_lines_end_without_a_return_is_one(line: bytes, end: bytes, packed: bool, tmp_path: Path) -> None:
    body = b"<p>x\r\n\r\ny\n\nz"
    encoded = b"Content-Encoding: gzip" + line if packed else b""
    head = b"HTTP/1.1 200 OK" + line + encoded + b"Content-Type: text/html; charset=koi8-r" + line
    block = head + end + (gzip.compress(body) if packed else body)
    (found,) = records(tmp_path, record("response", URL, block, "application/http; msgtype=response"))
    assert found == Page(URL, body, "koi8-r", "text/html")
