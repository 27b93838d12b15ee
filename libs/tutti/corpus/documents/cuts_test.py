"""Cuts: what a file of them takes from each document, however long it is."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tutti.corpus.documents import cuts
from tutti.corpus.documents.cuts import Cuts
from tutti.records.errors import UnsupportedFormat

DOCUMENTS, RANGES = 3000, 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each document loses as many bytes as its number, a hundred times; some lie in two batches."""
    numbers = np.repeat(np.arange(DOCUMENTS), RANGES)
    begins = np.tile(np.arange(RANGES) * 2 * DOCUMENTS, DOCUMENTS)
    ids = pa.array([f"{number:064x}" for number in numbers])
    rows = pa.record_batch([ids, pa.array(begins), pa.array(begins + numbers)], schema=cuts.schema())
    made = tmp_path_factory.mktemp("cuts") / "cuts.parquet"
    cuts.write((rows.slice(at, 1 << 16) for at in range(0, len(rows), 1 << 16)), made)
    return made


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """What Arrow holds, from here on."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(made := pa.proxy_memory_pool(before))
    yield made
    pa.set_memory_pool(before)


def test_the_bytes_of_each_document_are_added_up_a_few_rows_at_a_time(path: Path, pool: pa.MemoryPool) -> None:
    data = path.read_bytes()
    assert cuts.sizes(data) == {f"{number:064x}": RANGES * number for number in range(DOCUMENTS)}
    whole = DOCUMENTS * RANGES * (64 + 4 + 16)
    assert 0 < pool.max_memory() < whole / 2


def test_what_is_no_file_of_cuts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"damaged")
    with pytest.raises(UnsupportedFormat, match="not a file of cuts"):
        cuts.sizes(b"damaged")
    with pytest.raises(UnsupportedFormat, match="not a file of cuts"):
        Cuts(tmp_path / "damaged", tmp_path)
