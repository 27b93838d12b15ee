"""Fixtures: copies of this tree that a test may change.

Promises: a copy holds what git knows or would add; programs run in it import its own code, not this tree's.
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
FAR_FUTURE = time.time() + 10 * 365 * 86400


@dataclass(frozen=True)
class Tree:
    """A copy of the repository at `path`."""

    path: Path

    def run(self, *command: str, timeout: float = 200) -> subprocess.CompletedProcess[str]:
        """A program in the copy, with the environment of this test and the code of the copy."""
        return subprocess.run(
            command,
            cwd=self.path,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run("bash", "-euo", "pipefail", "-c", script)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.path / name).read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} of {old!r}"
        (self.path / name).write_text(text.replace(old, new))

    def _environment(self) -> dict[str, str]:
        """`make` finds its environment ready: what a copy may change must not install anything anywhere."""
        ready = self.path / "build" / "ready"
        return {
            **os.environ,
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{self.path / 'libs'}{os.pathsep}{self.path / 'services'}",
            "MAKEFLAGS": f"BIN={PROGRAMS} SETUP={ready} UV=false",
        }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A copy whose `.venv` leads to the environment of this test."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    copy = tmp_path / "tree"
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    (copy / ".venv").symlink_to(sys.prefix)
    (copy / "build").mkdir()
    (copy / "build" / "ready").touch()
    os.utime(copy / "build" / "ready", (FAR_FUTURE, FAR_FUTURE))
    return Tree(copy)
