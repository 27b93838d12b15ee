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

    def run(self, *command: str, timeout: float = 400) -> subprocess.CompletedProcess[str]:
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


def copied(copy: Path) -> Tree:
    """Copy this tree to a folder, with what Python compiled of it; its `.venv` is that of this test."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [Path(name) for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    for folder in sorted({name.parent for name in names}):
        (copy / folder).mkdir(parents=True, exist_ok=True)
        _link_compiled(ROOT / folder / "__pycache__", copy / folder / "__pycache__")
    for name in names:
        shutil.copy2(ROOT / name, copy / name)  # its time says that the compiled module is current
    (copy / ".venv").symlink_to(sys.prefix)
    (copy / "build").mkdir()
    (copy / "build" / "ready").touch()
    os.utime(copy / "build" / "ready", (FAR_FUTURE, FAR_FUTURE))
    return Tree(copy)


def _link_compiled(compiled: Path, copy: Path) -> None:
    """Link the compiled modules of a folder: Python replaces such a file, it never changes one."""
    if compiled.is_dir():
        copy.mkdir()
        for module in compiled.glob("*.pyc"):
            try:
                os.link(module, copy / module.name)
            except OSError:  # another disk, or another worker has just replaced it
                continue


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A copy for a test that changes it."""
    return copied(tmp_path / "tree")


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy for tests that show that a program changes nothing."""
    return copied(tmp_path_factory.mktemp("unchanged") / "tree")
