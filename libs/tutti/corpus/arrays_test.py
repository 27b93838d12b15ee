"""Arrays come back as they were, and a full disk is known by its number, however little did not fit."""

import errno
from pathlib import Path

import numpy as np
import pytest

from tutti.corpus import arrays

FULL = Path("/dev/full")


@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (0, 2), (511, 2)])
def test_an_array_is_read_back(shape: tuple[int, ...], tmp_path: Path) -> None:
    values = np.arange(np.prod(shape), dtype=np.uint64).reshape(shape)
    arrays.write(tmp_path / "once", values)
    with (tmp_path / "twice").open("wb") as file:
        arrays.append(file, values)
        arrays.append(file, values[::-1])
    assert np.array_equal(np.fromfile(tmp_path / "once", np.uint64).reshape(shape), values)
    assert np.array_equal(np.fromfile(tmp_path / "twice", np.uint64), np.concatenate([values, values[::-1]]).ravel())


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is full")
@pytest.mark.parametrize("items", [1, 100, 511, 512, 100_000])
def test_a_full_disk_is_told_by_its_number(items: int) -> None:
    values = np.zeros(items, np.uint64)
    with pytest.raises(OSError, match="No space left") as refused:
        arrays.write(FULL, values)
    assert refused.value.errno == errno.ENOSPC
