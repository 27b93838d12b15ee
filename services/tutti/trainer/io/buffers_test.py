"""Folders of snapshot buffers: whose they are, and when anybody may remove them."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tutti.backbone.files import RealFiles
from tutti.trainer.io.buffers import BufferPool, SharedBuffer, buffer_folder, own, sweep

FILES = RealFiles()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Stands for the machine's shared memory."""
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


def agent(tmp_path: Path, shared: Path, name: str, *, alive: bool, state_is_there: bool) -> Path:
    """The folder of an agent that has made buffers."""
    state = tmp_path / "agents" / name
    state.mkdir(parents=True)
    folder = buffer_folder(state, shared)
    lock = own(folder, state, FILES)
    BufferPool(folder).make("jobs/x", 1, 0, size=64, count=2)
    if not alive:
        lock.release()
    if not state_is_there:
        shutil.rmtree(state)
    return folder


def test_an_error_while_a_buffer_is_written_to_disk_is_the_one_that_is_raised(tmp_path: Path) -> None:
    (path,) = BufferPool(tmp_path).make("jobs/x", 1, 0, size=64, count=1)
    with (
        pytest.raises(OSError, match="space") as raised,
        SharedBuffer(path, 64) as buffer,
        FILES.append(Path("/dev/full")) as full,
    ):
        full.write(buffer.view[:32])
    assert raised.value.errno == errno.ENOSPC
    with pytest.raises(ValueError, match="released"):
        buffer.view[0]


def test_a_buffer_that_an_array_still_reads_is_unmapped_with_the_array(tmp_path: Path) -> None:
    (path,) = BufferPool(tmp_path).make("jobs/x", 1, 0, size=64, count=1)
    path.write_bytes(bytes(range(64)))
    with SharedBuffer(path, 64) as buffer:
        array = np.frombuffer(buffer.view, np.uint8)
    assert array[63] == 63
    del array, buffer
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_what_a_dead_agent_left_is_removed_once_its_state_folder_is_gone(tmp_path: Path, shared: Path) -> None:
    left = agent(tmp_path, shared, "dead and deleted", alive=False, state_is_there=False)
    kept = {
        agent(tmp_path, shared, "dead", alive=False, state_is_there=True),
        agent(tmp_path, shared, "alive", alive=True, state_is_there=True),
        agent(tmp_path, shared, "alive elsewhere", alive=True, state_is_there=False),
    }
    (shared / f"{left.name[:-4]}none").mkdir()  # nobody says whose it is
    before = set(shared.iterdir())
    assert sweep(FILES, shared) == [left]
    assert set(shared.iterdir()) == before - {left}
    assert kept < before
    assert sweep(FILES, shared) == []


def test_an_agent_starts_with_an_empty_folder_of_its_own(tmp_path: Path, shared: Path) -> None:
    folder = agent(tmp_path, shared, "a", alive=False, state_is_there=True)
    assert (folder / "x.1").exists()
    lock = own(folder, tmp_path / "agents" / "a", FILES)
    assert not (folder / "x.1").exists()
    assert folder.stat().st_mode & 0o777 == 0o700
    lock.release()


def test_a_pipe_or_a_link_of_somebody_in_shared_memory_keeps_nobody_waiting(tmp_path: Path, shared: Path) -> None:
    dead = agent(tmp_path, shared, "dead", alive=False, state_is_there=False)
    prefix = dead.name.rsplit("-", 1)[0]
    (piped := shared / f"{prefix}-0").mkdir()
    os.mkfifo(piped / "owner")
    (shared / f"{prefix}-1").symlink_to(dead)
    (shared / f"{prefix}-2").write_text("")
    assert sweep(FILES, shared) == [dead]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other accounts")
def test_a_folder_of_another_account_is_neither_swept_nor_taken(tmp_path: Path, shared: Path) -> None:
    folder = agent(tmp_path, shared, "a", alive=False, state_is_there=False)
    os.chown(folder, 65534, 65534)
    assert sweep(FILES, shared) == []
    (state := tmp_path / "agents" / "a").mkdir()
    with pytest.raises(PermissionError, match="65534"):
        own(buffer_folder(state, shared), state, FILES)
