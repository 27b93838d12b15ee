"""Sorting: whatever the capacity, every record comes out once, in order, and no file stays."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.spans.sorting import Sorter


@given(
    parts=st.lists(st.lists(st.integers(0, 30) | st.integers(0, (1 << 64) - 1), max_size=60), max_size=6),
    capacity=st.integers(1, 200), rows=st.integers(1, 50),
)  # fmt: skip
@settings(max_examples=80)
def test_records_come_out_sorted_with_their_values(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]], capacity: int, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("sorting")
    pairs, single = Sorter(folder / "a", ("<u8", "<u4"), capacity), Sorter(folder / "b", ("<u8",), capacity)
    count = 0
    for part in parts:
        keys = np.array(part, np.uint64)
        pairs.add(keys, np.arange(count, count + len(part), dtype=np.uint32))
        single.add(keys)
        count += len(part)
    whole = [key for part in parts for key in part]
    batches = [(keys.tolist(), values.tolist()) for keys, values in pairs.batches(rows)]
    assert all(len(keys) <= rows for keys, _ in batches)
    assert [key for keys, _ in batches for key in keys] == sorted(whole)
    assert sorted(zip((k for keys, _ in batches for k in keys), (v for _, vs in batches for v in vs), strict=True)) == (
        sorted(zip(whole, range(count), strict=True))
    )
    assert [key for (keys,) in single.batches(rows) for key in keys.tolist()] == sorted(whole)
    assert list(folder.iterdir()) == []


def test_many_runs_are_merged_in_levels(tmp_path: Path) -> None:
    keys = np.random.default_rng(0).permutation(20_000).astype(np.uint64)
    sorter = Sorter(tmp_path / "a", ("<u8",), 40)
    sorter.add(keys)
    assert np.array_equal(np.concatenate([batch for (batch,) in sorter.batches(1000)]), np.arange(20_000))
    assert list(tmp_path.iterdir()) == []
