"""Rows of Parquet as objects: odd values and hostile structures are refused row by row, and nothing fails."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tutti.corpus.conversations.layouts import Layout, conversation
from tutti.corpus.conversations.unfit import Reason, Unfit
from tutti.corpus.parquetobjects import objects, opened


def rows(path: Path, table: pa.Table, most: int = 1 << 20) -> list[dict[str, object] | Unfit]:
    pq.write_table(table, path / "a.parquet", store_schema=False)  # type: ignore[no-untyped-call]
    with opened(path / "a.parquet") as file:
        return list(objects(file, most))


def test_bytes_are_no_text_of_a_message_and_other_values_are_texts_as_they_are_shown(tmp_path: Path) -> None:
    of_bytes = {"messages": [{"role": "user", "content": b"caf\xe9"}], "made": datetime.date(2026, 11, 29)}
    (row,) = rows(tmp_path, pa.Table.from_pylist([of_bytes]))
    assert isinstance(row, dict)
    assert row["made"] == "2026-11-29"
    with pytest.raises(Unfit) as refused:
        conversation(Layout.MESSAGES, row)
    assert refused.value.reason is Reason.NOT_A_STRING


def test_a_row_that_is_nested_too_deep_is_refused_by_itself(tmp_path: Path) -> None:
    deep, kind = list[Any]([1]), pa.list_(pa.int64())
    for _ in range(300):
        deep, kind = [deep], pa.list_(kind)
    (row,) = rows(tmp_path, pa.table({"deep": pa.array([deep], kind)}))
    assert isinstance(row, Unfit)


def test_fields_of_a_structure_with_one_name_are_read_like_those_of_an_object_in_json(tmp_path: Path) -> None:
    twice = pa.StructArray.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])
    (row,) = rows(tmp_path, pa.table({"s": twice}))
    assert row == {"s": {"x": "b"}}
