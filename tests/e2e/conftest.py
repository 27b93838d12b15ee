"""Twenty real pages, rendered once for all tests; a platform for tests that break nothing; and what a run left, of
which each test that needs or damages a finished run gets a copy.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.shared import made_once, shared_folder

ROOT = Path(__file__).resolve().parents[2]
LONG_STEPS, LONG_EVERY = 120, 10


@pytest.fixture(scope="session")
def pages() -> Path:
    """A folder of the first twenty pages of the exhibit."""
    command = [sys.executable, str(ROOT / "tools" / "exhibit.py"), "--pages", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return Path(done.stdout.strip().splitlines()[-1]).resolve()


@dataclass(frozen=True)
class Finished:
    """The data directory of a run of the tiny recipe that is done, and the run's summary; its platform is down."""

    data_dir: Path
    summary: dict[str, Any]

    def copied(self, to: Path) -> Path:
        """Copy the directory, without logs and caches, to a folder that does not exist; return that folder."""
        shutil.copytree(self.data_dir, to, ignore=shutil.ignore_patterns("logs", "cache"))
        return to


@pytest.fixture(scope="session")
def finished(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Made by the first worker that needs it, for all of them: change a copy, never the directory itself."""
    shared = shared_folder(tmp_path_factory) / "finished"

    def make() -> Any:
        result = tutti(*tiny(shared / "data", pages))
        assert result.code == 0, result.err
        return result.json()

    return Finished(shared / "data", made_once(shared, make))


@pytest.fixture(scope="session")
def states_of_a_long_run(served: Path, pages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Step to state digest of the tiny recipe with LONG_STEPS, a checkpoint after every LONG_EVERY, undisturbed."""

    def make() -> dict[int, str]:
        result = tutti(*tiny(served, pages, f"train.steps={LONG_STEPS}", f"train.checkpoint_every={LONG_EVERY}"))
        assert result.code == 0, result.err
        return checkpoints(result.json())

    states = made_once(shared_folder(tmp_path_factory) / "long", make)
    return {int(step): digest for step, digest in states.items()}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a platform that is up; its path has spaces."""
    folder = tmp_path_factory.mktemp("served") / "my first däta dir #1"
    with platform(folder):
        yield folder


@pytest.fixture(scope="session")
def data_dir(served: Path) -> Path:
    """The same, for the runs of a module: its newest run is the newest of all until the module ends."""
    return served
