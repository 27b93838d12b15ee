"""Files that promise more than they have, twenty for each reader.

Memory stays within a multiple of the limit of a record, and each file is refused or skipped by its name.
"""

import gzip
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MIB = 1 << 20
LIMIT, PAGE_LIMIT = 16 * MIB, 50 * MIB
"""Limits of a record, and of a page by default."""
# Reads the files of a folder one by one; of each the memory at its peak, less that before, and what was refused.
READ = r"""
import json, re, sys
from pathlib import Path
import pyarrow.parquet, fastwarc.warc
from tutti.ingest.reading import jsonlines, parquetrows, warcrecords
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.readers import Container, Limits, read_folder
from tutti.ingest.reading.containers import Page, RecordOptions
from tutti.ingest.reading.rejections import Rejection

def memory(name):
    return int(re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10

def records(file):
    if isinstance(file, Container):
        yield from file.read(file.file, file.path, RecordOptions(LIMIT, "text"))
    elif isinstance(file, Page):
        made = extract(file)
        if isinstance(made, Rejection):
            yield made
    else:
        yield file

LIMIT = int(sys.argv[2])
extract(Page("a.html", b"<p>Some words"))
for path in sorted(Path(sys.argv[1]).iterdir()):
    Path("/proc/self/clear_refs").write_text("5")
    before, refused = memory("VmRSS"), []
    for file in read_folder(path, Limits(LIMIT)):
        for record in records(file):
            if isinstance(record, Rejection):
                refused.append([record.path, record.reason])
                del refused[10:]
            del record
        del file
    print(json.dumps([path.name, memory("VmHWM") - before, refused]), flush=True)
"""


def packed(*pieces: bytes) -> bytes:
    """What a bomb is in a file: gzip of pieces, none of which is ever held whole."""
    stream = zlib.compressobj(6, wbits=31)
    return b"".join([*(stream.compress(piece) for piece in pieces), stream.flush()])


def json_lines() -> Iterator[tuple[str, bytes]]:
    zeros = b"0" * MIB
    yield "long.jsonl", b"x" * (LIMIT + 9)
    yield "bomb.jsonl.gz", packed(*[zeros] * 300)
    yield "bomb.jsonl.zst", pa.compress(bytes(300 * MIB), "zstd", asbytes=True)
    yield "strings.jsonl.gz", packed(b'{"text": "', *[zeros] * 40, b'"}')
    yield "lists.jsonl", b"[" * (15 * MIB)
    yield "pairs.jsonl", b"[" + b"[]," * (4 * MIB) + b"[]]"
    yield "objects.jsonl", b'{"a":' * (3 * MIB)
    yield "dicts.jsonl", b"[" + b'{"a":1},' * (MIB * 3 // 2) + b"1]"
    yield "few.jsonl", b"[" + b'{"a":1},' * 490_000 + b"1]"
    yield "digits.jsonl", b'{"text": ' + b"9" * (8 * MIB) + b"}"
    yield "escapes.jsonl", b'{"title": "' + b"\\u4e2d" * (2 * MIB) + b'"}'
    yield "wide.jsonl", b'{"title": "' + "\U0001f600".encode() * (3 * MIB) + b'"}'
    yield "utf32.jsonl", ('{"title": "' + "a" * (3 * MIB) + '"}').encode("utf-32-le")
    yield "keys.jsonl", b"{" + b",".join(b'"%d":1' % number for number in range(400_000)) + b"}"
    yield "surrogates.jsonl", b'{"text": 1, "a": "' + b"\\ud800" * (2 * MIB) + b'"}'
    yield "binary.jsonl", bytes(range(256)) * (32 << 10)
    yield "cut.jsonl.gz", packed(b'{"text": "' + zeros)[:-20]
    yield "no.jsonl.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 1000
    yield "members.jsonl.gz", packed(b"[]\n") * 2000
    yield "quotes.jsonl", b'"' * (15 * MIB)


def row(**values: object) -> pa.Table:
    return pa.table({"text": ["a"]} | values)


def parquet(folder: Path) -> Iterator[tuple[str, bytes]]:
    def written(table: pa.Table, **options: object) -> bytes:
        pq.write_table(table, folder / "made", **({"compression": "zstd"} | options))  # type: ignore[no-untyped-call]
        return (folder / "made").read_bytes()

    def repeated(size: int, rows: int) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))

    good = written(row())
    yield "promises.parquet", written(pa.table({"text": repeated(8 * MIB, 200_000)}))
    yield "smaller.parquet", written(pa.table({"text": repeated(MIB, 200_000)}))
    yield "over.parquet", written(pa.table({"text": repeated(LIMIT + 9, 2_000)}))
    yield "urls.parquet", written(pa.table({"text": ["a"] * 3000, "url": repeated(12 * MIB, 3000)}))
    yield "titles.parquet", written(pa.table({"text": repeated(7 * MIB, 90), "title": repeated(7 * MIB, 90)}))
    yield (
        "three.parquet",
        written(
            pa.table({"text": repeated(8 * MIB, 30), "url": repeated(15 * MIB, 30), "title": repeated(15 * MIB, 30)})
        ),
    )
    yield "page.parquet", written(pa.table({"text": ["x" * (40 * MIB)]}))
    yield "plain.parquet", written(pa.table({"text": ["x" * (17 * MIB)] * 2}), use_dictionary=False)
    yield "columns.parquet", written(row(**{f"c{number}": [1] for number in range(16_000)}), write_statistics=False)
    yield "notes.parquet", written(row().replace_schema_metadata({str(each): "v" * 60 for each in range(100_000)}))
    yield "name.parquet", written(row(**{"n" * (3 * MIB): [1]}))
    yield "other.parquet", written(pa.table({"words": ["a"]}))
    yield "numbers.parquet", written(pa.table({"text": [1]}))
    yield "nested.parquet", written(pa.table({"text": [[["a"]]]}))
    yield "nulls.parquet", written(pa.table({"text": pa.nulls(3, pa.string())}))
    yield "footer.parquet", good[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1"
    yield "long.parquet", good[:4] + b"\x15" * (4 * MIB) + (4 * MIB).to_bytes(4, "little") + b"PAR1"
    yield "noise.parquet", b"PAR1" + b"\xff" * MIB + (MIB).to_bytes(4, "little") + b"PAR1"
    yield "cut.parquet", good[:-4]
    yield "none.parquet", b"PAR1"


def warc_record(block: bytes, *, kind: bytes = b"response", head: bytes = b"", length: int | None = None) -> bytes:
    size = len(block) if length is None else length
    return (
        b"WARC/1.1\r\nWARC-Type: %s\r\n%sContent-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
        b"%s\r\n\r\n" % (kind, head, size, block)
    )


def warc() -> Iterator[tuple[str, bytes]]:
    ok, most = b"HTTP/1.1 200 OK\r\n", LIMIT - MIB
    yield "lines.warc.gz", packed(warc_record(ok + b"a\n" * (most // 2) + b"\n\nx"))
    yield "endless.warc.gz", packed(warc_record(ok + b"a\n" * (most // 2)))
    yield "colons.warc.gz", packed(warc_record(ok + b"a:b\n" * (most // 4) + b"\n\nx"))
    yield "coded.warc.gz", packed(warc_record(ok + b"Content-Encoding: x\n" * (most // 20) + b"\n\nx"))
    yield "line.warc.gz", packed(warc_record(ok + b"a" * most + b"\r\n\r\nx"))
    yield (
        "chunked.warc.gz",
        packed(warc_record(ok + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (most // 6) + b"x\r\n")),
    )
    yield "chunk.warc", warc_record(ok + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\na")
    for coding in (b"gzip", b"deflate", b"br", b"gzip, gzip, gzip"):
        name = coding.decode().replace(", ", "-")
        body = (
            ok + b"Content-Encoding: " + coding + b"\r\nContent-Type: text/html\r\n\r\n" + packed(*[bytes(MIB)] * 100)
        )
        yield f"{name}.warc", warc_record(body)
    yield "large.warc.gz", packed(warc_record(b"", length=300 * MIB), *[bytes(MIB)] * 300)
    yield "requests.warc.gz", packed(*[warc_record(bytes(MIB), kind=b"request")] * 300)
    yield "answers.warc.gz", packed(*[warc_record(ok + b"\r\n" + bytes(8 * MIB))] * 40)
    yield "head.warc.gz", packed(warc_record(b"x", head=b"a: b\r\n" * (2 * MIB)))
    yield "field.warc.gz", packed(warc_record(b"x", head=b"a: " + b"b" * (40 * MIB) + b"\r\n"))
    yield "negative.warc", warc_record(b"x", length=-1)
    yield "endless.length.warc", warc_record(b"x", length=10**18)
    yield "no.warc.gz", packed(*[b"W" * MIB] * 300)
    yield "cut.warc.gz", gzip.compress(warc_record(ok + b"\r\n" + bytes(MIB)))[:-99]


def pages() -> Iterator[tuple[str, bytes]]:
    yield "deep.html", b"<div>" * (3 * MIB)
    yield "attributes.html", b"<p " + b"a=b " * (3 * MIB) + b">"
    yield "open.html", b"<i a " * (2 * MIB)
    yield "comments.html", b"<!--" * (3 * MIB)
    yield "comment.html", b"<!--" + b"-" * (15 * MIB)
    yield "script.html", b"<script>" + b"x" * (15 * MIB)
    yield "style.html", b"<style>" * (2 * MIB)
    yield "tables.html", b"<table>" * (2 * MIB)
    yield "ends.html", b"</p>" * MIB  # without the kernel each takes 30 microseconds
    yield "entities.html", b"<title>x</title>" + b"&nbsp;" * (2 * MIB)
    yield "doctype.html", b"<!DOCTYPE a [" + b"<!ENTITY a 'b'>" * MIB
    yield "large.html", b"<p>" + b"x" * (PAGE_LIMIT + 9)
    yield "binary.html", bytes(range(256)) * (48 << 10)
    yield "zeros.txt", bytes(15 * MIB)
    yield "spaces.txt", b" \n" * (7 * MIB)
    yield "utf16.txt", b"\xff\xfe" + b"\x00\xd8" * (5 * MIB)
    yield "marks.txt", b"\xef\xbb\xbf" + b"\x80" * (5 * MIB)
    yield "pdf.txt", b"%PDF-1.7\n" + bytes(4 * MIB)
    yield "gzip.html", packed(*[bytes(MIB)] * 100)
    yield "image.md", b"\x89PNG\r\n\x1a\n" + bytes(4 * MIB)


READERS: dict[str, Callable[[Path], Iterator[tuple[str, bytes]]]] = {
    "json lines": lambda _: json_lines(),
    "parquet": parquet,
    "warc": lambda _: warc(),
    "pages": lambda _: pages(),
}


@pytest.mark.parametrize("reader", READERS)
def test_twenty_hostile_files_take_little_memory_and_are_refused_by_their_names(tmp_path: Path, reader: str) -> None:
    (folder := tmp_path / "files").mkdir()
    for name, content in READERS[reader](tmp_path):
        (folder / name).write_bytes(content)
    names, limit = {path.name for path in folder.iterdir()}, PAGE_LIMIT if reader == "pages" else LIMIT
    assert len(names) == 20
    command = [sys.executable, "-P", "-c", READ, str(folder), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-400:] + done.stderr[-2000:]
    found = {name: (peak, refused) for name, peak, refused in map(json.loads, done.stdout.splitlines())}
    most = 64 * MIB + 8 * limit
    assert {name: peak // MIB for name, (peak, _) in found.items() if peak > most} == {}
    assert {name for name, (_, refused) in found.items() if any(name in path for path, _ in refused)} == names
