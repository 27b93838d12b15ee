"""The external sort equals a sort of the set of records, whatever the capacity and the order, and leaves no file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus import sorting
from tutti.corpus.sorting import Sorter, in_order

NUMBERS = st.integers(0, 30) | st.integers(0, (1 << 64) - 1)


@given(
    parts=st.lists(st.lists(st.tuples(NUMBERS, st.integers(0, 3)), max_size=60), max_size=6),
    capacity=st.integers(1, 200), rows=st.integers(1, 50),
)  # fmt: skip
@settings(max_examples=80)
def test_records_come_out_sorted_and_once_as_often_as_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, int]]], capacity: int, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("sorting")
    pairs, single = Sorter(folder / "a", ("<u8", "<u4"), capacity), Sorter(folder / "b", ("<u8",), capacity)
    for part in parts:
        keys, values = np.array([key for key, _ in part], np.uint64), np.array([value for _, value in part], np.uint32)
        pairs.add(keys, values)
        single.add(keys)
    whole = [pair for part in parts for pair in part]
    for _ in range(2):
        batches = [list(zip(*(column.tolist() for column in batch), strict=True)) for batch in pairs.batches(rows)]
        assert all(len(batch) <= rows for batch in batches)
        assert [pair for batch in batches for pair in batch] == sorted(set(whole))
        assert [key for (keys,) in single.batches(rows) for key in keys.tolist()] == sorted({key for key, _ in whole})
    pairs.remove()
    single.remove()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("window", [1, 7, 1000])
@given(records=st.lists(st.tuples(st.integers(0, 9), NUMBERS), max_size=200))
def test_ties_are_sorted_in_any_window(window: int, records: list[tuple[int, int]]) -> None:
    columns = np.array(records, np.uint64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_WINDOW", window)
        first, second = in_order(*columns)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == sorted(set(records))
    assert columns.T.tolist() == [list(record) for record in records], "the columns that were given are not changed"


@pytest.mark.parametrize("step", [1, -1, 7919])
def test_many_runs_are_merged_in_levels(tmp_path: Path, step: int) -> None:
    keys = (np.arange(20_000) * step % 20_000).astype(np.uint64)
    sorter = Sorter(tmp_path / "a", ("<u8",), 40)
    sorter.add(keys)
    assert np.array_equal(np.concatenate([batch for (batch,) in sorter.batches(1000)]), np.arange(20_000))
    sorter.remove()
    assert list(tmp_path.iterdir()) == []
