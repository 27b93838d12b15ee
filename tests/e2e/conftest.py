"""Twenty real pages, rendered once for all tests, and a platform for tests that break nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import platform

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pages() -> Path:
    """A folder of the first twenty pages of the exhibit."""
    command = [sys.executable, str(ROOT / "tools" / "exhibit.py"), "--pages", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return Path(done.stdout.strip().splitlines()[-1]).resolve()


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
