"""Files of many records: each becomes a document or a rejection that says where it stood, and takes no other along."""

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastwarc.warc import WarcRecord, WarcRecordType

from tutti.corpus.documents.documents import Document
from tutti.corpus.files.parquetpages import pages
from tutti.ingest.reading import containers, shards, warcrecords
from tutti.ingest.reading.containers import Record, RecordOptions, Text, patiently
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.reading.rejections import Reason, Rejection, RejectionFile

RUSSIAN = "Библиотека открыта каждый день."
PAGE = b"<!doctype html><title>A page</title><main><p>Some words of a page.</p></main>"


def read(folder: Path, *, max_bytes: int = 1 << 20, text_field: str = "text") -> list[Document | Rejection]:
    reading = shards.Reading(folder, max_bytes, 0, text_field)
    return [extract(record) for file in shards.files(reading) for record in shards.records(file, reading)]


def texts(found: list[Document | Rejection]) -> dict[str, str]:
    return {each.source: each.text for each in found if isinstance(each, Document)}


def refused(found: list[Document | Rejection]) -> dict[str, Reason]:
    return {each.path: each.reason for each in found if isinstance(each, Rejection)}


def line(text: str, **more: object) -> str:
    return json.dumps({"text": text, **more})


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a.jsonl", bytes),
        ("a.ndjson.gz", gzip.compress),
        ("A.JSONL.GZ", lambda data: gzip.compress(data[:30]) + gzip.compress(data[30:])),
        ("a.jsonl.zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
    ],
)
def test_json_lines_are_documents_whatever_packs_them(
    name: str, packed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    lines = [line("one", url="https://a.example/1", title="A  title"), "", line("two"), line("  ")]
    (tmp_path / name).write_bytes(packed("\n".join(lines).encode()))
    found = read(tmp_path)
    assert texts(found) == {"https://a.example/1": "one", f"{name}:3": "two"}
    assert refused(found) == {f"{name}:4": Reason.EMPTY}
    assert isinstance(found[0], Document)
    assert found[0].title == "A title"


def test_a_line_that_is_no_record_is_quoted_and_passed_over(tmp_path: Path) -> None:
    lines = [
        "\ufeff" + line("first"),
        "rubbish \x00 \udcff",
        "[1]",
        '{"content": "another schema", "\ud800": 1}',
        '{"text": 7}',
        "[" * 100_000,
        line("x" * 200),
        line("a\ud800b", url="https://\ud800"),
        line("last", url="u" * 3000),
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\r\n".join(each.encode("utf-8", "surrogatepass") for each in lines))
    found = read(tmp_path, max_bytes=150)
    assert texts(found) == {"a.jsonl:1": "first", "a.jsonl:8": "a\ufffdb"}
    assert refused(found) == {
        "a.jsonl:2": Reason.MALFORMED,
        "a.jsonl:3": Reason.MALFORMED,
        "a.jsonl:4": Reason.NO_TEXT,
        "a.jsonl:5": Reason.NO_TEXT,
        "a.jsonl:6": Reason.TOO_LARGE,
        "a.jsonl:7": Reason.TOO_LARGE,
        "a.jsonl:9": Reason.TOO_LARGE,
    }
    first = next(each for each in found if isinstance(each, Rejection))
    assert first.detail.endswith("begins with 'rubbish \\x00 \\\\xed\\\\xb3\\\\xbf'")
    deep = read(tmp_path, max_bytes=1 << 20)
    assert refused(deep)["a.jsonl:6"] is Reason.MALFORMED
    assert texts(deep)["a.jsonl:9"] == "last"


def test_the_field_of_the_text_is_the_recipes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"content": "words", "text": "not these"}))
    assert texts(read(tmp_path, text_field="content")) == {"a.jsonl:1": "words"}


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def numbered(first: int, behind: int) -> bytes:
    """Lines that pack badly, of about 1 KiB."""
    return b"".join(f"{line(random.Random(n).randbytes(500).hex())}\n".encode() for n in range(first, behind))


BLOCK = 128 << 10
"""Zstandard unpacks so many bytes at once, or none of them."""
PACKED = {"a.jsonl.gz": gzip.compress, "a.jsonl.zst": zstd}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("damage", [b"", b"rubbish behind it", b"\xff" * 40], ids=["cut", "rubbish", "flipped"])
def test_a_packed_file_that_is_damaged_gives_all_that_came_before(name: str, damage: bytes, tmp_path: Path) -> None:
    pack = PACKED[name]
    second = pack(numbered(5, 400))
    (tmp_path / name).write_bytes(pack(numbered(0, 5)) + (second[:12] if damage == b"" else damage + second[40:]))
    found = read(tmp_path)
    assert len(texts(found)) == 5
    (rejected,) = (each for each in found if isinstance(each, Rejection))
    assert (rejected.path, rejected.reason) == (name, Reason.DAMAGED)
    assert rejected.detail.startswith("after line 5 the file cannot be read (")
    assert str(tmp_path) not in rejected.detail


def test_of_a_member_that_is_damaged_every_line_before_is_read(tmp_path: Path) -> None:
    packing = zlib.compressobj(wbits=31)
    begins = packing.compress(numbered(0, 5) + b'{"text": "cut') + packing.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "a.jsonl.gz").write_bytes(begins + b"\xff" * 40 + packing.compress(numbered(5, 9)) + packing.flush())
    found = read(tmp_path)
    assert len(texts(found)) == 5
    assert refused(found) == {"a.jsonl.gz": Reason.DAMAGED}


def test_of_a_cut_file_every_line_that_can_be_unpacked_is_read(tmp_path: Path) -> None:
    data = numbered(0, 400)
    cut = {name: packed[: len(packed) * 3 // 4] for name, pack in PACKED.items() for packed in [pack(data)]}
    for name, packed in cut.items():
        (tmp_path / name).write_bytes(packed)
    unpacked = {"a.jsonl.gz": zlib.decompressobj(31).decompress(cut["a.jsonl.gz"]), "a.jsonl.zst": data[: 2 * BLOCK]}
    found = read(tmp_path)
    for name, lines in unpacked.items():
        assert sum(source.startswith(f"{name}:") for source in texts(found)) == lines.count(b"\n") > 250
    assert refused(found) == dict.fromkeys(PACKED, Reason.DAMAGED)


def test_a_line_of_any_length_takes_no_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + line("after").encode())
    found = read(tmp_path)
    assert refused(found) == {"a.jsonl.gz:1": Reason.TOO_LARGE}
    assert texts(found) == {"a.jsonl.gz:2": "after"}


@pytest.mark.parametrize("values", ["{},", "[],", '"",', '"a\\"",', "1,"])
def test_a_line_of_very_many_values_is_refused_before_they_take_memory(values: str, tmp_path: Path) -> None:
    many = values * 1_000_001
    (tmp_path / "a.jsonl").write_text(f'{{"text": "hello", "a": [{many}1]}}\n' + line("after"))
    found = read(tmp_path, max_bytes=48 << 20)
    assert refused(found) == {"a.jsonl:1": Reason.TOO_LARGE}
    assert [each.detail for each in found if isinstance(each, Rejection)] == [
        "more than 1,000,000 values in a line: leave out fields that are no text"
    ]
    assert texts(found) == {"a.jsonl:2": "after"}


@pytest.mark.parametrize("text", ["[{,", '\\",{[', "words, "])
def test_a_text_of_very_many_commas_and_brackets_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(line(text * 600_000, more=[1, "[,"]))
    assert texts(read(tmp_path, max_bytes=48 << 20)) == {"a.jsonl:1": (text * 600_000).rstrip()}


def test_a_number_may_have_any_length(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "words", "id": ' + "9" * 5_000 + "}\n")
    assert texts(read(tmp_path)) == {"a.jsonl:1": "words"}


def test_a_file_that_is_mostly_rubbish_is_not_read_to_its_end() -> None:
    def rubbish() -> Iterator[Record]:
        for number in range(10**9):
            yield Text("t", "t", "") if number % 5 == 0 else Rejection(f"a:{number}", Reason.MALFORMED, "")

    found = list(patiently(rubbish(), "a"))
    assert found[-1] == Rejection(
        "a",
        Reason.DAMAGED,
        "1000 of the first 1250 records are none of such a file; the rest was not read: repair the file",
    )


@pytest.mark.parametrize(("reason", "good"), [(Reason.NO_TEXT, 1), (Reason.TOO_LARGE, 1), (Reason.MALFORMED, 4)])
def test_a_file_of_which_some_records_cannot_be_used_is_read_to_its_end(reason: Reason, good: int) -> None:
    few: list[Record] = [Rejection("a", reason, ""), *[Text("t", "t", "")] * good]
    some = few * 10_000
    assert list(patiently(iter(some), "a")) == some


def test_rows_of_parquet_are_documents(tmp_path: Path) -> None:
    columns = {"id": [1, 2, 3], "text": ["one", None, "x" * 300], "url": [None, "u", ""], "title": ["T", "", None]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")  # type: ignore[no-untyped-call]
    found = read(tmp_path, max_bytes=200)
    assert texts(found) == {"a.parquet:1": "one"}
    assert refused(found) == {"a.parquet:2": Reason.NO_TEXT, "a.parquet:3": Reason.TOO_LARGE}


@pytest.mark.parametrize("column", ["text", "title", "url"])
def test_a_row_that_is_not_utf_8_takes_no_other_along(column: str, tmp_path: Path) -> None:
    columns = {name: pa.array(["one", "two", "three"]) for name in {"text", column}}
    columns[column] = pa.array([b"one", b"\xff\xfe bad", b"three"]).view(pa.string())
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")  # type: ignore[no-untyped-call]
    found = read(tmp_path)
    assert list(texts(found).values()) == ["one", "three"]
    (rejected,) = (each for each in found if isinstance(each, Rejection))
    assert (rejected.path, rejected.reason) == ("a.parquet:2", Reason.MALFORMED)
    assert rejected.detail == f"the column {column!r} is not UTF-8; begins with '\\\\xff\\\\xfe bad'"


STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_texts_are_read_whatever_kind_of_strings_they_are(kind: pa.DataType, tmp_path: Path) -> None:
    texts_and_urls = {name: pa.array(["one", None, "one"]).cast(kind) for name in ("text", "url")}
    pq.write_table(pa.table(texts_and_urls), tmp_path / "a.parquet")  # type: ignore[no-untyped-call]
    found = read(tmp_path)
    assert [(each.source, each.text) for each in found if isinstance(each, Document)] == [("one", "one")] * 2
    assert refused(found) == {"a.parquet:2": Reason.NO_TEXT}


@pytest.mark.parametrize("columns", [{"content": ["one"]}, {"text": [1]}, {"text": [["one"]]}, {}])
def test_parquet_without_a_column_of_texts_names_those_it_has(columns: dict[str, list[object]], tmp_path: Path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")  # type: ignore[no-untyped-call]
    (found,) = read(tmp_path)
    assert isinstance(found, Rejection)
    assert found.reason is Reason.NO_TEXT
    assert all(repr(name) in found.detail for name in columns)


def test_pages_of_parquet_are_known_by_their_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["one", "two", None, "three"] * 100})
    for options in ({"data_page_version": "1.0"}, {"data_page_version": "2.0"}, {"use_dictionary": False}):
        pq.write_table(table, path, write_batch_size=40, data_page_size=1, **options)  # type: ignore[no-untyped-call]
        column = pq.read_metadata(path).row_group(0).column(0)  # type: ignore[no-untyped-call]
        with path.open("rb") as file:
            found = list(pages(file, column))
        assert sum(each.values for each in found) == 400
        assert len(found) == 10 + column.has_dictionary_page
        assert sum(each.size for each in found) < column.total_uncompressed_size


@pytest.mark.parametrize("header", [b"", b"\x00", b"\x15\x00\x15", b"\x19\x05", b"\x1c" * 20, b"\x15" + b"\xff" * 20])
def test_a_page_of_parquet_without_a_size_is_damage(header: bytes, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["one"]}), tmp_path / "a.parquet", use_dictionary=False)  # type: ignore[no-untyped-call]
    column = pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0)  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="page"):
        list(pages(io.BytesIO(b"PAR1" + header), column))


def test_parquet_that_is_damaged_is_refused_from_there_on(tmp_path: Path) -> None:
    table = pa.table({"text": [f"{number} " * 50 for number in range(5_000)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=500)  # type: ignore[no-untyped-call]
    whole = path.read_bytes()
    for data in (whole[:-20], b"", b"PAR1", b"rubbish " * 100):
        path.write_bytes(data)
        assert refused(read(tmp_path)) == {"a.parquet": Reason.DAMAGED}
    path.write_bytes(whole[: len(whole) // 2] + b"\xff" * 500 + whole[len(whole) // 2 + 500 :])
    found = read(tmp_path)
    assert refused(found) == {"a.parquet": Reason.DAMAGED}
    assert len(texts(found)) >= 500


def answer(uri: str, body: bytes, *, status: str = "200 OK", headers: bytes = b"Content-Type: text/html\r\n") -> bytes:
    """A WARC record of a response."""
    block = f"HTTP/1.1 {status}\r\n".encode() + headers + b"\r\n" + body
    return record("response", uri, block, "application/http; msgtype=response")


def record(kind: str, uri: str, block: bytes, content_type: str) -> bytes:
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:12345678-1234-1234-1234-123456789012>\r\n"
        f"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: {uri}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def test_an_archive_gives_its_pages_and_says_why_others_are_none(tmp_path: Path) -> None:
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(PAGE), PAGE)
    records = [
        record("warcinfo", "", b"software: x\r\n", "application/warc-fields"),
        record("request", "https://a.example/", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request"),
        answer("https://a.example/", PAGE),
        answer("https://a.example/gone", b"", status="404 Not Found"),
        answer("https://a.example/image", b"\x89PNG", headers=b"Content-Type: image/png\r\n"),
        answer("https://a.example/gz", gzip.compress(PAGE), headers=b"Content-Encoding: gzip\r\n"),
        answer("https://a.example/chunked", chunked, headers=b"Transfer-Encoding: chunked\r\n"),
        answer("https://a.example/latin", b"caf\xe9", headers=b"Content-Type: text/plain; charset=ISO-8859-1\r\n"),
        answer("https://a.example/plain", PAGE, headers=b"Content-Type: text/plain\r\n"),
        answer("https://a.example/shot", b"\x89PNG", headers=b"Content-Type: text/html\r\n"),
        answer(
            "https://a.example/russian",
            RUSSIAN.encode("koi8-r"),
            headers=b"Content-Type: text/plain; charset=UTF-8\r\n",
        ),
        answer(
            "https://a.example/wide",
            RUSSIAN.encode("utf-16-le"),
            headers=b"Content-Type: text/plain; charset=utf-16le\r\n",
        ),
        answer("https://a.example/paper", b"%PDF-1.4", headers=b"Content-Type: application/pdf\r\n"),
        answer("https://a.example/print", b"%PDF-1.4", headers=b"Content-Type: text/html\r\n"),
        answer("https://a.example/lies", b"\x1f\x8bno gzip", headers=b"Content-Encoding: gzip\r\n"),
        answer("https://a.example/large", b"x" * 5000),
        answer("https://a.example/bomb", gzip.compress(b"x" * 10**7), headers=b"Content-Encoding: gzip\r\n"),
        record("resource", "file:///a.md", b"# Words\n\nof a resource", "text/markdown"),
        record("conversion", "https://b.example/", "café".encode(), "text/plain"),
    ]
    expected = {
        "https://a.example/": "Some words of a page.",
        "https://a.example/gz": "Some words of a page.",
        "https://a.example/chunked": "Some words of a page.",
        "https://a.example/latin": "café",
        "https://a.example/plain": "Some words of a page.",
        "https://a.example/russian": RUSSIAN,
        "https://a.example/wide": RUSSIAN,
        "file:///a.md": "# Words\n\nof a resource",
        "https://b.example/": "café",
    }
    for name, packed in (("a.warc", bytes), ("a.warc.gz", gzip.compress)):
        path = tmp_path / name
        path.write_bytes(b"".join(map(packed, records)))
        found = read(tmp_path, max_bytes=12_000)
        assert texts(found) == expected | {"https://a.example/large": "x" * 5000}
        assert refused(found) == {
            "https://a.example/gone": Reason.NOT_OK,
            "https://a.example/image": Reason.BINARY,
            "https://a.example/shot": Reason.BINARY,
            "https://a.example/paper": Reason.PDF,
            "https://a.example/print": Reason.PDF,
            "https://a.example/lies": Reason.DAMAGED,
            "https://a.example/bomb": Reason.TOO_LARGE,
        }
        assert "https://a.example/large" in refused(read(tmp_path, max_bytes=4_000))
        path.unlink()


@pytest.mark.parametrize(
    "data",
    [
        (answer("a", PAGE) + answer("b", PAGE * 900))[:-500],
        (gzip.compress(answer("a", PAGE)) + gzip.compress(answer("b", PAGE * 900)))[:-20],
        gzip.compress(answer("a", PAGE)) + answer("b", PAGE),
        answer("a", PAGE) + gzip.compress(answer("b", PAGE)),
        answer("a", PAGE) + b"rubbish between\r\n\r\n" + answer("b", PAGE),
    ],
    ids=["cut", "cut-gzip", "gzip-then-plain", "plain-then-gzip", "rubbish"],
)
def test_an_archive_that_is_damaged_gives_what_came_before(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(data)
    found = read(tmp_path)
    assert list(texts(found)) == ["a"]
    assert set(refused(found).values()) == {Reason.DAMAGED}
    assert not any(str(tmp_path) in each.detail for each in found if isinstance(each, Rejection))


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_archive_that_is_damaged_gives_all_records_before(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    first, second = (pack(b"".join(answer(f"{part}{n}", PAGE) for n in range(9))) for part in "ab")
    (tmp_path / f"a.warc.{'gz' if pack is gzip.compress else 'zst'}").write_bytes(first + b"rubbish behind it" + second)
    found = read(tmp_path)
    assert list(texts(found)) == [f"a{n}" for n in range(9)]
    assert list(refused(found).values()) == [Reason.DAMAGED]


CHUNKED, GZIPPED = b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n"
TYPED = b"Content-Type: text/html\r\n"


def in_chunks(body: bytes, size: int = 1 << 16) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("headers", [TYPED + CHUNKED + GZIPPED, GZIPPED.lower() + TYPED + CHUNKED.lower()])
@pytest.mark.parametrize(
    "body",
    [PAGE, in_chunks(PAGE), gzip.compress(PAGE), in_chunks(gzip.compress(PAGE)), in_chunks(gzip.compress(PAGE), 1)],
    ids=["plain", "chunked", "gzip", "both", "both-in-many"],
)
def test_encodings_are_undone_where_they_are_not_undone_already(body: bytes, headers: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(answer("a", body, headers=headers))
    assert texts(read(tmp_path)) == {"a": "Some words of a page."}


def test_a_revisit_in_an_archive_of_others_is_refused_and_says_what_it_refers_to(tmp_path: Path) -> None:
    named = record("revisit", "https://a.example/", b"HTTP/1.1 304 Not Modified\r\n\r\n", "application/http")
    refers = b"WARC-Refers-To-Target-URI: https://a.example/x\r\nWARC-Refers-To-Date: 2025-12-31T00:00:00Z\r\n"
    (tmp_path / "a.warc").write_bytes(answer("b", PAGE) + named.replace(b"WARC-Date", refers + b"WARC-Date"))
    (tmp_path / "b.warc").write_bytes(named)
    found = [each for each in read(tmp_path) if isinstance(each, Rejection)]
    assert [(each.path, each.reason) for each in found] == [("https://a.example/", Reason.NO_TEXT)] * 2
    assert [each.detail for each in found] == [
        "a.warc:2 is a revisit, without a body: it refers to the answer of https://a.example/x on 2025-12-31T00:00:00Z",
        "b.warc:1 is a revisit, without a body: it refers to the answer of https://a.example/ on an earlier day",
    ]


def test_an_archive_without_pages_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(record("warcinfo", "", b"software: x\r\n", "application/warc-fields"))
    (tmp_path / "b.warc").write_bytes(b"")
    assert refused(read(tmp_path)) == {"a.warc": Reason.NO_TEXT}


def test_a_record_longer_than_is_read_takes_no_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.warc.gz", "wb", compresslevel=1) as file:
        head = b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: a\r\nContent-Type: application/http\r\n"
        file.write(head + b"Content-Length: %d\r\n\r\n" % (200 << 20))
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b"\r\n\r\n" + answer("b", PAGE))
    found = read(tmp_path)
    assert refused(found) == {"a": Reason.TOO_LARGE}
    assert list(texts(found)) == ["b"]


BARE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
BROTLI = bytes.fromhex(
    "1b4c00309c07768c06dac4122357adf40109ab17b8e2094a973437c738"
    "70b8699bf0416e70c8594071cb8e14f69cc92303f2a6c5c035d0a51102"
)  # PAGE


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(PAGE)),
        ("X-Gzip", gzip.compress(PAGE[:9]) + gzip.compress(PAGE[9:])),
        ("deflate", zlib.compress(PAGE)),
        ("deflate", BARE.compress(PAGE) + BARE.flush()),
        ("deflate, gzip", gzip.compress(zlib.compress(PAGE))),
        ("br", BROTLI),
    ],
    ids=["gzip", "members", "zlib", "deflate", "twice", "br"],
)
def test_an_answer_is_read_in_whatever_encoding_it_came_and_is_damaged_where_that_ends_too_early(
    encoding: str, body: bytes, tmp_path: Path
) -> None:
    headers = b"Content-Type: text/html\r\nContent-Encoding: %b\r\n" % encoding.encode()
    cut = [answer(f"{missing} less", body[:-missing], headers=headers) for missing in (1, 8, len(body) // 2)]
    (tmp_path / "a.warc").write_bytes(b"".join((answer("whole", body, headers=headers), *cut)))
    found = read(tmp_path)
    assert texts(found) == {"whole": "Some words of a page."}
    assert list(refused(found).values()) == [Reason.DAMAGED] * 3


def test_what_is_written_by_another_writer_of_archives_is_read(tmp_path: Path) -> None:
    made = WarcRecord()
    made.init_headers(WarcRecordType.response)
    made.headers["WARC-Target-URI"] = "https://a.example/"
    made.headers["Content-Type"] = "application/http; msgtype=response"
    made.set_bytes_content(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE)
    sink = io.BytesIO()
    made.write(sink)
    (tmp_path / "a.warc").write_bytes(sink.getvalue())
    assert list(texts(read(tmp_path))) == ["https://a.example/"]


def test_a_file_that_changes_while_it_is_read_ends_the_work(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line("one") + "\n" + line("two"))
    reading = shards.Reading(tmp_path, 1 << 20, 0)
    (file,) = shards.files(reading)
    found = shards.records(file, reading)
    next(found)
    path.write_text(line("another"))
    with pytest.raises(InputRootError, match=r"a\.jsonl: it was changed while it was read"):
        list(found)


def test_shards_hold_each_document_once_and_rejections_are_counted_beyond_those_named(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "in", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    lines = [line("same", url="u"), line("same", url="u"), *["rubbish"] * 150]
    (folder / "a.jsonl").write_text("\n".join(lines))
    (folder / "b.txt").write_text("a page")
    written = shards.write_shards(shards.Reading(folder, 1 << 20, 0), scratch)
    assert (written.documents, written.survey.files) == (2, 2)
    assert written.rejections.by_reason() == [("malformed", 150), ("repeated", 1)]
    told = json.loads(written.rejections.path.read_bytes())
    assert len(told) == 102
    assert told[-1] == {
        "path": "a.jsonl",
        "reason": "malformed",
        "detail": "50 more of this file, which are not named",
    }
    assert written.survey == shards.survey(shards.Reading(folder, 1 << 20, 0))


def test_what_came_before_is_known_in_every_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_TEXT_BYTES", 1000)
    folder, scratch = tmp_path / "in", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    lines = [line(f"{number} " + "many words " * 20, url=f"u{number}") for number in range(12)]
    (folder / "a.jsonl").write_text("\n".join([*lines, lines[0], lines[11]]))
    written = shards.write_shards(shards.Reading(folder, 1 << 20, 0), scratch)
    assert len(written.shards) == 3
    assert (written.documents, written.rejections.by_reason()) == (12, [("repeated", 2)])


def test_the_file_of_rejections_names_some_of_each_file(tmp_path: Path) -> None:
    rejected = (
        [("a", Reason.MALFORMED)] * 102 + [("a", Reason.NO_TEXT), ("b", Reason.EMPTY)] + [("c", Reason.EMPTY)] * 101
    )
    with RejectionFile(tmp_path / "r.json") as rejections:
        for file, reason in rejected:
            rejections.add(file, Rejection(file, reason, "seen"))
    told = rejections.told()
    assert told.counts == {Reason.MALFORMED: 102, Reason.NO_TEXT: 1, Reason.EMPTY: 102}
    rows = [(each["path"], each["reason"], each["detail"]) for each in json.loads(told.path.read_bytes())]
    named = [("a", "malformed")] * 100 + [("a", "no_text"), ("b", "empty")] + [("c", "empty")] * 100
    more = [("a", "malformed", "2"), ("c", "empty", "1")]
    assert rows == [
        *((path, reason, "seen") for path, reason in named),
        *((path, reason, f"{count} more of this file, which are not named") for path, reason, count in more),
    ]


def test_nothing_rejected_is_an_empty_list(tmp_path: Path) -> None:
    with RejectionFile(tmp_path / "r.json") as rejections:
        pass
    assert (rejections.told().first, (tmp_path / "r.json").read_bytes()) == (None, b"[]")


def test_names_tell_files_of_records_from_pages() -> None:
    for name in ("a.jsonl", "A.NDJSON.GZ", "b.warc.zst", "c.parquet", "a.json", "a.json.gz", "a.csv"):
        assert containers.reader_of(name) is not None
    for name in ("a.txt.gz", "a.parquet.gz", "warc", "jsonl"):
        assert containers.reader_of(name) is None


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=koi8-r",
        b"HTTP/1.0 200\r\nX: y\r\n  folded\r\n \r\nContent-Type:text/plain",
        b"HTTP/1.1 200 OK\nContent-Type: image/png\n\nx",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\n\r\nx",
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2",
        b"HTTP/1.1 OK",
        b"HTTP/",
        b"",
        b"\r\nHTTP/1.1 200 OK",
        b"ICY 200 OK\r\nContent-Type: text/plain",
    ],
)
@pytest.mark.parametrize("body", [b"<p>some words", b"", b"\r\n\r\nx", b"a\r\n\r\nb" * 9])
def test_an_answer_that_is_sent_as_it_is_needs_its_head_alone(
    head: bytes, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered() -> Record:
        return warcrecords._answer(
            "http://a.example/", head + b"\r\n\r\n" + body, "the answer", RecordOptions(1 << 20, "text")
        )

    alone = answered()
    monkeypatch.setattr(warcrecords, "_ENCODED", b"")
    assert answered() == alone
