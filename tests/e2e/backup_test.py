"""`tutti backup` while a run goes on, and `tutti restore` to an empty data directory, where the run goes on."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.faults.processes import kill_all, named, until
from tutti.client import connect
from tutti.contracts.common.v1 import ListRequest

STEPS, DURING = 20, 6
OVERRIDES = ("input.limit=10", f"train.steps={STEPS}")


def step(data_dir: Path) -> int:
    with connect(data_dir) as client:
        return max((job.step for job in client.scheduler.ListJobs(ListRequest()).jobs), default=0)


@contextlib.contextmanager
def standing_still(data_dir: Path) -> Iterator[None]:
    """The ranks make no step meanwhile, so that a busy machine does not end the run before the backup begins."""
    ranks = named(data_dir, "tutti.trainer.rank.forkserver")
    assert ranks
    for each in ranks:
        each.suspend()
    yield
    for each in ranks:
        each.resume()


@pytest.fixture(scope="module")
def taken(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[int, str]]:
    """A run, the backup that was taken while it trained, and the checkpoints that the run made in the end."""
    folder = tmp_path_factory.mktemp("backup")
    data_dir, backup = folder / "data", folder / "backup"
    with platform(data_dir):
        run = tutti(*tiny(data_dir, pages, *OVERRIDES, output=("--detach",))).out.strip()
        until(lambda: step(data_dir) >= DURING, seconds=120, what=f"step {DURING}")
        with standing_still(data_dir):
            made = tutti("backup", backup, "--data-dir", data_dir, "-o", "json")
        assert made.code == 0, made.err
        print(made.out)
        assert made.json()["damaged"] == []
        assert list((data_dir / "scratch" / "host").glob("databases-*")) == []
        result = tutti("runs", "follow", run, "--data-dir", data_dir, "-o", "json")
        assert result.code == 0, result.err
        kill_all(data_dir)
    shutil.rmtree(data_dir)
    return run, backup, checkpoints(result.json())


def test_a_run_goes_on_from_a_backup_that_was_taken_while_it_trained(
    taken: tuple[str, Path, dict[int, str]], tmp_path: Path
) -> None:
    run, backup, states = taken
    data_dir = tmp_path / "restored"
    restored = tutti("restore", backup, "--data-dir", data_dir)
    assert restored.code == 0, restored.err
    with platform(data_dir):
        assert DURING <= step(data_dir) < STEPS
        result = tutti("runs", "follow", run, "--data-dir", data_dir, "-o", "json")
        assert result.code == 0, result.err
        assert checkpoints(result.json()) == states
        verified = tutti("checkpoints", "verify", "--data-dir", data_dir)
        assert verified.code == 0, verified.err
        doctor = tutti("doctor", "--data-dir", data_dir)
        assert doctor.code == 0, doctor.out


def test_mistakes_are_refused_before_anything_is_written(
    taken: tuple[str, Path, dict[int, str]], tmp_path: Path
) -> None:
    _, backup, _ = taken
    data_dir = tmp_path / "restored"
    tried = tutti("restore", backup, "--dry-run", "--data-dir", data_dir)
    assert (tried.code, tried.err.startswith("would restore stack ")) == (0, True), tried.err
    assert list((data_dir / "db").iterdir()) == []
    assert tutti("restore", tmp_path, "--data-dir", data_dir).err == (
        f"tutti: {tmp_path} is not a complete backup: it has no backup.json, which `tutti backup` writes last\n"
    )
    again = tutti("backup", backup, "--data-dir", data_dir)
    assert (again.code, "is not empty, it has " in again.err) == (1, True), again.err
