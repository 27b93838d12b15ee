"""The file of dropped documents: what was written is read, of this version and of the first."""

from pathlib import Path

import pyarrow as pa
import pytest

from tutti.corpus.documents import duplicates
from tutti.records.errors import UnsupportedFormat


def test_what_was_written_is_read(tmp_path: Path) -> None:
    rows = [{"doc_id": "b", "kept": "a", "how": "near", "jaccard": 0.8}]
    duplicates.write([pa.RecordBatch.from_pylist(rows, schema=duplicates.schema())], tmp_path / "file")
    assert duplicates.decode((tmp_path / "file").read_bytes()).to_pylist() == rows


def test_a_file_without_rows_is_one_too(tmp_path: Path) -> None:
    duplicates.write([], tmp_path / "file")
    assert duplicates.decode((tmp_path / "file").read_bytes()).num_rows == 0


def test_the_list_of_version_0_1_is_read() -> None:
    table = duplicates.decode(b'[{"dropped":["c","b"],"kept":"a","text_digest":"blake3:0"}]')
    assert table.schema == duplicates.schema()
    assert table["doc_id"].to_pylist() == ["b", "c"]
    assert set(table["kept"].to_pylist()) == {"a"}
    assert duplicates.decode(b"[]").num_rows == 0


@pytest.mark.parametrize("data", [b"", b"PAR1", b"[1]", b"[{}]", b'[{"dropped":1,"kept":"a"}]', b"[", b"{}"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedFormat, match="run the stage again"):
        duplicates.decode(data)
