"""Files of any size, and small ones that unpack into large ones, take the memory of a record, not of the file."""

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.smalldisk import ROOT
from tutti.ingest.reading.containers_test import PAGE, answer
from tutti.ingest.reading.shards import MAX_FILE_BYTES

MIB = 1 << 20
LONG = 200
"""Mebibytes of a record: four times what is read of one."""
BOUND = 150
"""Megabytes: twice what is read of a record, which is asked for whole and put together, and a reader's buffers."""
LINE = json.dumps({"text": "A short text of some words."}).encode()
LAST = answer("https://a.example/last", PAGE)
HEAD = (
    b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/long\r\nContent-Type: application/http\r\n"
    b"Content-Length: %d\r\n\r\n"
)


def line(file: IO[bytes]) -> None:
    file.write(b'{"text": "')
    for _ in range(LONG):
        file.write(b"x" * MIB)
    file.write(b'"}\n' + LINE)


def record(file: IO[bytes]) -> None:
    file.write(HEAD % (LONG * MIB))
    for _ in range(LONG):
        file.write(b"x" * MIB)
    file.write(b"\r\n\r\n" + LAST)


def bomb(file: IO[bytes]) -> None:
    packed = gzip.compress(bytes(2 * LONG * MIB), 1)
    file.write(answer("https://a.example/long", packed, headers=b"Content-Encoding: gzip\r\n") + LAST)


def page(file: IO[bytes]) -> None:
    file.truncate(2 * LONG * MIB)


def paragraphs(file: IO[bytes]) -> None:
    """35 kB, of which a parser makes four million elements unless the page is rewritten before."""
    file.write(b"<html><p>" + b"".join(b"<b id=x%d>" % each for each in range(500)) + b"x" + b"<p>x" * 9_000)


def dictionary(file: IO[bytes]) -> None:
    """Rows that all have one text, which is there once and cannot be compressed; and one that has another."""
    long = random.Random(0).randbytes(MAX_FILE_BYTES // 2 + 1).hex()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 60 + [1], pa.int32()), [long, "Words."])
    pq.write_table(pa.table({"text": column}), file, store_schema=False)  # type: ignore[no-untyped-call]


def column(file: IO[bytes]) -> None:
    """A row of one long text between others, which are in pages of their own, or in a group of their own."""
    groups = (["Words."] * 32 + ["x" * (LONG * MIB)] + ["Words."] * 16, ["Words."])
    options = {"compression": "zstd", "use_dictionary": False, "write_batch_size": 16, "data_page_size": 16}
    with pq.ParquetWriter(file, pa.schema({"text": pa.string()}), **options) as writer:  # type: ignore[no-untyped-call]
        for texts in groups:
            writer.write_table(pa.table({"text": texts}))


def opened(path: Path) -> AbstractContextManager[Any]:
    if path.suffix == ".gz":
        return gzip.open(path, "wb", compresslevel=1)
    return pa.CompressedOutputStream(str(path), "zstd") if path.suffix == ".zst" else path.open("wb")


def measured(tmp_path: Path, name: str, write: Callable[[IO[bytes]], None]) -> dict[str, Any]:
    """What reading a file takes once a like one was read that is small."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    (small / "a.jsonl.gz").write_bytes(gzip.compress(LINE))
    (small / "a.jsonl.zst").write_bytes(pa.compress(LINE, "zstd", asbytes=True))
    (small / "a.warc.gz").write_bytes(gzip.compress(LAST))
    pq.write_table(pa.table({"text": ["Words."]}), small / "a.parquet")  # type: ignore[no-untyped-call]
    with opened(large / name) as file:
        write(file)
    command = [sys.executable, "-m", "tests.corpora.peak", str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "write", "documents", "refused"),
    [
        ("a.jsonl", line, 1, "a.jsonl:1"),
        ("a.jsonl.gz", line, 1, "a.jsonl.gz:1"),
        ("a.jsonl.zst", line, 1, "a.jsonl.zst:1"),
        ("a.warc", record, 1, "https://a.example/long"),
        ("a.warc.gz", record, 1, "https://a.example/long"),
        ("a.warc", bomb, 1, "https://a.example/long"),
        ("a.html", page, 0, "a.html"),
    ],
    ids=["jsonl", "jsonl.gz", "jsonl.zst", "warc", "warc.gz", "bomb", "page"],
)
def test_what_is_longer_than_is_read_is_refused_without_being_held(
    name: str, write: Callable[[IO[bytes]], None], documents: int, refused: str, tmp_path: Path
) -> None:
    found = measured(tmp_path, name, write)
    assert (found["documents"], found["rejected"]) == (documents, {refused: "too_large"})
    assert found["megabytes"] < BOUND


def test_a_text_that_many_rows_have_is_not_held_as_often(tmp_path: Path) -> None:
    found = measured(tmp_path, "a.parquet", dictionary)
    assert found["documents"] == 1
    assert set(found["rejected"].values()) == {"too_large"}
    assert len(found["rejected"]) == 60
    assert found["megabytes"] < 16 * MAX_FILE_BYTES / 1e6


def test_a_page_of_a_column_that_is_too_large_is_not_unpacked_and_those_before_it_are_read(tmp_path: Path) -> None:
    found = measured(tmp_path, "a.parquet", column)
    assert found["documents"] == 33
    assert found["rejected"] == {f"a.parquet:{row}": "too_large" for row in range(33, 50)}
    assert found["megabytes"] < BOUND


def test_a_small_page_whose_elements_a_parser_would_rebuild_is_read_in_the_memory_of_its_size(tmp_path: Path) -> None:
    found = measured(tmp_path, "a.html", paragraphs)
    assert (found["documents"], found["rejected"]) == (1, {})
    assert found["megabytes"] < BOUND
