"""Ctrl-C at any time: exit code 130, nothing left running, and the same command goes on where it was."""

import signal
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, start, tiny, tutti
from tests.faults.processes import blobs, family, until

pytestmark = [pytest.mark.xdist_group("e2e-interrupt"), pytest.mark.timeout(600)]


@pytest.mark.parametrize("nth", [2, 14])
def test_an_interrupted_run_is_resumed_by_the_same_command(nth: int, pages: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    process = start(*tiny(data_dir, pages))
    until((data_dir / "lock").exists, seconds=60, what="the data directory")
    until(lambda: blobs(data_dir) >= nth, seconds=60, what=f"blob {nth}")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert family(data_dir) == []
    again = tutti(*tiny(data_dir, pages))
    assert again.code == 0, again.err
    assert sorted(checkpoints(again.json())) == [5, 10, 15, 20]
