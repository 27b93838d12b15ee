"""A memory limit that is too low for a rank: it is killed by the kernel, the history of its job names memory and what
to look at, and the job goes on to the same states once the limit is raised.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

from tests.e2e.command import checkpoints, platform, start, tiny, tutti
from tests.faults.processes import named, until
from tests.lacking import lacking
from tests.scale import SOAK
from tutti.chassis.config.memory import KILLED, ran_out

CGROUPS = Path("/sys/fs/cgroup")
TOO_LITTLE, ENOUGH = 4 << 20, 4 << 30


class Limit:
    """A memory cgroup, of version 1 or 2: what its processes allocate counts, and what they fork belongs to it."""

    def __init__(self, folder: Path, file: str) -> None:
        self._folder, self._file = folder, file

    def set(self, most_bytes: int) -> None:
        (self._folder / self._file).write_text(str(most_bytes))

    def add(self, process: psutil.Process) -> None:
        (self._folder / "cgroup.procs").write_text(str(process.pid))

    def empty(self) -> bool:
        return (self._folder / "cgroup.procs").read_text() == ""


@contextmanager
def limited(most_bytes: int) -> Iterator[Limit]:
    """A new cgroup without processes; it can be removed once they have ended. Skips where none can be made."""
    second = (CGROUPS / "cgroup.controllers").exists()
    folder = (CGROUPS if second else CGROUPS / "memory") / f"tutti-test-{os.getpid()}"
    limit = Limit(folder, "memory.max" if second else "memory.limit_in_bytes")
    try:
        folder.mkdir()
        limit.set(most_bytes)
    except OSError as error:
        lacking(f"needs root and a memory cgroup that it may divide: {error}")
    try:
        yield limit
    finally:
        until(limit.empty, seconds=60, what="the end of the processes with a limit")
        folder.rmdir()


def test_what_torch_cannot_allocate_is_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as failed:
        torch.empty(1 << 58, dtype=torch.uint8)
    assert ran_out(failed.value)


@pytest.mark.skipif(not SOAK, reason="a soak row; tests/trainer/faults_test.py kills a rank")
def test_a_rank_with_too_little_memory_is_killed_named_and_goes_on_with_more(pages: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    short, long = ("train.steps=2", "train.ranks=1"), ("train.steps=40", "train.checkpoint_every=20", "train.ranks=1")
    with limited(TOO_LITTLE) as limit, platform(data_dir):
        first = tutti(*tiny(data_dir, pages, *short))
        assert first.code == 0, first.err
        server = min(named(data_dir, "tutti.trainer.rank.forkserver"), key=lambda each: each.create_time())
        limit.add(server)
        process = start(*tiny(data_dir, pages, *long, "train.attempts=20"))
        until(lambda: f"SIGKILL ({KILLED})" in history(data_dir), seconds=120, what="a rank that is killed")
        limit.set(ENOUGH)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        print(f"events of a job with too little memory: {history(data_dir)}")
    with platform(tmp_path / "whole"):
        whole = tutti(*tiny(tmp_path / "whole", pages, *long))
        assert whole.code == 0, whole.err
    assert checkpoints(json.loads(out)) == checkpoints(whole.json())


def history(data_dir: Path) -> str:
    """Of the newest job, as lines."""
    shown = tutti("jobs", "show", "latest", "--data-dir", data_dir, "-o", "json")
    assert shown.code == 0, shown.err
    return "\n".join(shown.json()["history"])
