"""Archives of others: what is told of their records, and which of these are pages."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tutti.ingest.containers import Record, Wanted
from tutti.ingest.containers_test import answer
from tutti.ingest.rejections import Reason, Rejection
from tutti.ingest.warcrecords import read_records

WANTED = Wanted(1 << 20, "text")
URL = "https://a.example/"


def records(folder: Path, *written: bytes, name: str = "a.warc") -> Sequence[Record]:
    (folder / name).write_bytes(b"".join(written))
    return list(read_records(folder / name, name, WANTED))


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
