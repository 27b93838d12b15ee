"""Twenty real pages, rendered once for all tests."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pages() -> Path:
    """A folder of the first twenty pages of the exhibit."""
    command = [sys.executable, str(ROOT / "tools" / "exhibit.py"), "--pages", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return Path(done.stdout.strip().splitlines()[-1]).resolve()
