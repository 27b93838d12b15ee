"""A stack (every service a process, on real servers) beside an embedded platform that carries out the same recipes."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import ROOT, Result, checkpoints, environment, platform, tiny, tutti
from tests.e2e.conftest import pages
from tests.lacking import lacking
from tests.scale import SOAK

__all__ = ["pages"]
LOCAL = ROOT / "deploy" / "local"
# A killed holder is waited for so long; what the platform does is the same with any number.
LEASES = {"TUTTI_LEASE__TTL_SECONDS": "3", "TUTTI_LEASE__RENEW_SECONDS": "1"}
LEADING = ("scheduler", "committer", "pipeline")
# Two replicas of each service in a soak; else of those that lead.
REPLICAS = ("--copies", "2", *([] if SOAK else [part for each in LEADING for part in ("--copies-of", each)]))


def local(script: str, *arguments: str | Path, seconds: float = 240.0) -> Result:
    """Run a script of deploy/local to its end."""
    return program(LOCAL / script, *arguments, seconds=seconds)


def program(*arguments: str | Path, seconds: float = 240.0) -> Result:
    """Run a program in Python to its end."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment(LEASES),
        cwd=ROOT,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def processes(data_dir: Path) -> list[dict[str, Any]]:
    return list(json.loads(local("stack.py", "ps", "--data-dir", data_dir, "-o", "json").out))


@pytest.fixture(scope="session")
def programs() -> None:
    """The servers' programs are on this machine, or the test is skipped with the way to get them."""
    found = local("servers.py", "obtain", seconds=900)
    if found.code:
        lacking(found.err.strip())


@pytest.fixture(scope="module")
def stack(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a stack that is up."""
    with brought_up(tmp_path_factory.mktemp("stack") / "data", *REPLICAS) as data_dir:
        yield data_dir


@contextlib.contextmanager
def brought_up(data_dir: Path, *arguments: str) -> Iterator[Path]:
    """A stack that is up; nothing of it is left."""
    result = local("stack.py", "up", "--data-dir", data_dir, *arguments)
    assert result.code == 0, result.err
    try:
        yield data_dir
    finally:
        local("stack.py", "down", "--data-dir", data_dir)
        local("servers.py", "wipe", "--dir", data_dir / "servers")


@dataclass(frozen=True)
class Embedded:
    """What an embedded platform made of recipes: summaries by overrides, and all of it as a canonical export."""

    summaries: dict[tuple[str, ...], Any]
    canonical: str

    def checkpoints(self, *overrides: str) -> dict[int, str]:
        return checkpoints(self.summaries[overrides])


@pytest.fixture(scope="module")
def embedded(request: pytest.FixtureRequest, pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Embedded:
    """The recipes of `CARRIED_OUT` of the test's module; the platform is down before anything else begins."""
    data_dir = tmp_path_factory.mktemp("embedded") / "data"
    summaries = {}
    with platform(data_dir, agents=2):
        for overrides in request.module.CARRIED_OUT:
            result = tutti(*tiny(data_dir, pages, *overrides))
            assert result.code == 0, result.err
            summaries[overrides] = result.json()
        exported = tutti("export", "--canonical", "--data-dir", data_dir)
        assert exported.code == 0, exported.err
    return Embedded(summaries, exported.out)
