"""The trial of shared memory, on that of this machine and where there is none or too little."""

import resource
from pathlib import Path

import pytest

from tutti.chassis.runtime.sharedmemory import SHARED, Lacking, tried


def test_memory_that_is_shared_is_tried_and_nothing_is_left(tmp_path: Path) -> None:
    assert "shared memory works" in tried(tmp_path)
    assert list(tmp_path.iterdir()) == []
    if SHARED.is_dir():
        assert "iB free" in tried()


def test_a_machine_without_a_folder_for_it_is_no_trouble(tmp_path: Path) -> None:
    assert tried(tmp_path / "none") == f"no {tmp_path}/none, so snapshots are on disk"


def test_too_little_is_named_with_what_to_do(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(Lacking, match=r"16\.0 MiB in .* cannot be reserved: File too large; .* raise `shm_size`"):
            tried(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
