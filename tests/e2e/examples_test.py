"""The examples in Go and TypeScript, generated, built and run against a platform, where their toolchains are.

Nothing is fetched: `make examples` does that once, and afterwards what is in the caches is enough.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, environment, platform, tutti

GO, TYPESCRIPT = ROOT / "examples" / "go", ROOT / "examples" / "typescript"
PROGRAMS = ((["go", "run", "."], GO), (["npm", "start", "--silent", "--"], TYPESCRIPT))
OFFLINE = {"GOPROXY": "off", "GOFLAGS": "-mod=mod -buildvcs=false", "npm_config_offline": "true"}


def ran(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    said = {**environment(), **OFFLINE}
    return subprocess.run([*map(str, command)], cwd=folder, env=said, capture_output=True, text=True, timeout=800)


def ready() -> bool:
    if not (shutil.which("go") and shutil.which("npm") and (TYPESCRIPT / "node_modules").exists()):
        return False
    return ran(["go", "mod", "verify"], GO).returncode == 0


@pytest.mark.skipif(not ready(), reason="needs Go and Node; `make examples` fetches what the examples need")
def test_go_and_typescript_list_and_follow_the_runs_of_a_platform(tmp_path: Path, pages: Path) -> None:
    generated = ran([ROOT / ".venv" / "bin" / "buf", "generate"], ROOT)
    assert generated.returncode == 0, generated.stderr
    with platform(tmp_path / "data", agents=0):
        made = tutti("run", "--data", pages, "--detach", "--data-dir", tmp_path / "data")
        assert made.code == 0, made.err
        for command, folder in PROGRAMS:
            listed = ran([*command, tmp_path / "data"], folder)
            assert listed.returncode == 0, listed.stderr
            assert listed.stdout.startswith(f"{made.out.strip()}  ")
            assert listed.stdout.rstrip().endswith("step 0")
        name = made.out.strip()
        assert tutti("runs", "cancel", name, "--data-dir", tmp_path / "data").code == 0
        for command, folder in PROGRAMS:
            followed = ran([*command, tmp_path / "data", name], folder)
            assert followed.returncode == 0, followed.stderr
            assert [line.split()[0] for line in followed.stdout.splitlines()] == [name] * followed.stdout.count("\n")
            assert followed.stdout.rstrip().endswith("CANCELLED")


def test_a_python_program_follows_a_run_until_it_ends(served: Path, pages: Path) -> None:
    made = tutti("run", "--data", pages, "--set", "data.seed=7", "--detach", "--data-dir", served)
    name = made.out.strip()
    assert tutti("runs", "cancel", name, "--data-dir", served).code == 0
    command: list[str | Path] = [
        sys.executable,
        ROOT / "examples" / "follow_run.py",
        name,
        "--data-dir",
        served,
    ]
    followed = ran(command, ROOT)
    assert followed.returncode == 0, followed.stderr
    assert followed.stdout.rstrip().endswith("STATE_CANCELLED")
