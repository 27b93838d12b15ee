"""What brings rows together: the external sort, the candidates of bands, components; each against the plain way."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.dedup.candidates import WINDOW, pairs
from tutti.dedup.components import Components
from tutti.dedup.kernel import native
from tutti.dedup.names import Names
from tutti.dedup.rows import RowSorter
from tutti.dedup.verification import distinct_by_kernel, distinct_by_numpy


@pytest.mark.parametrize("run_rows", [50, 333, 5000])
def test_rows_come_out_in_order_and_once(tmp_path: Path, run_rows: int) -> None:
    source = np.random.default_rng(run_rows)
    rows = source.integers(0, 40, (3000, 2), np.uint64)
    rows[::7, 0] = 2**64 - 1
    rows[::5] = 3  # one row many times, over many runs
    sort = RowSorter(tmp_path / "rows", run_rows=run_rows)
    for part in np.array_split(rows, 13):
        sort.add(*part.T)
    for _ in range(2):
        assert [tuple(row) for block in sort.blocks() for row in block.tolist()] == sorted(
            set(map(tuple, rows.tolist()))
        )
    assert any((tmp_path / "rows").iterdir()) == (run_rows < 3000)
    sort.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(native().library is None, reason=native().why_not)
@given(runs=st.lists(st.lists(st.integers(0, 9)), max_size=20))
def test_the_kernel_keeps_each_member_once_as_numpy_does(runs: list[list[int]]) -> None:
    library = native().library
    assert library is not None
    members = np.array([each for run in runs for each in sorted(run)], np.uint64)
    bounds = np.cumsum([0, *map(len, runs)])
    expected = distinct_by_numpy(members.copy(), bounds.copy())
    for ours, theirs in zip(distinct_by_kernel(library, members, bounds), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [part.tolist() for part in np.split(expected[0], expected[1][1:-1])][: len(runs)] == [
        sorted(set(run)) for run in runs
    ]


def test_ids_of_one_length_and_of_several_are_numbered_alike() -> None:
    short = pa.array(["b", "a", "c", "\u00e9"])
    mixed = Names([pa.array(["bb", "", "a"]), short, pa.array([], pa.string()), short[1:3]])
    assert mixed.ids(np.arange(len(mixed))).to_pylist() == ["", "a", "b", "bb", "c", "\u00e9"]
    even = Names([pa.array(["zz", "bb"]), pa.array(["xx", "bb", "aa"])[1:]])
    assert even.documents(pa.array(["?", "bb", "zz"])[1:]).tolist() == [1, 2]


@pytest.mark.parametrize("cut", [1, 3, 20, 1000])
def test_bands_make_pairs_whatever_the_cut(cut: int) -> None:
    small = {band: sorted({band, 5 * band + 1, 90 + band}) for band in range(30)} | {40: list(range(WINDOW + 1))}
    large = {41: list(range(100, 400, 3))}
    rows = np.array([(band, each) for band, held in sorted((small | large).items()) for each in held], np.uint64)
    blocks = np.array_split(rows, range(cut, len(rows), cut))
    found = {pair for left, right in pairs(blocks) for pair in zip(left.tolist(), right.tolist(), strict=True)}
    expected = {pair for held in small.values() for pair in combinations(held, 2)}
    near = {(a, b) for a, b in combinations(large[41], 2) if a == 100 or b - a <= 3 * WINDOW}
    assert found == expected | near


def test_components_are_named_by_their_smallest() -> None:
    source = np.random.default_rng(3)
    links = source.integers(0, 1000, (600, 2))
    chain = np.stack([np.arange(1000, 1999), np.arange(1001, 2000)], axis=1)
    least = list(range(2000))
    for a, b in links.tolist():
        low, high = sorted((least[a], least[b]))
        least = [low if each == high else each for each in least]
    for order in (np.concatenate([links, chain]), np.concatenate([links, chain])[::-1]):
        components = Components(2000)
        for part in np.array_split(order, 9):
            components.join(*part.T)
        assert components.roots(np.arange(2000)).tolist() == least[:1000] + [1000] * 1000
