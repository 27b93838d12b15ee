"""The examples in Go and TypeScript, generated, built and run against a platform, where their toolchains are; those in
Python with the package of the client alone, too.

Nothing is fetched: `make examples` does that once, and afterwards what is in the caches is enough.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools import clientwheel

from tests.e2e.command import ROOT, environment, platform, tiny, tutti

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
            listed = ran([*command, "--data-dir", tmp_path / "data"], folder)
            assert listed.returncode == 0, listed.stderr
            assert listed.stdout.startswith(f"{made.out.strip()}  ")
            assert listed.stdout.rstrip().endswith("step 0")
        name = made.out.strip()
        assert tutti("runs", "cancel", name, "--data-dir", tmp_path / "data").code == 0
        for command, folder in PROGRAMS:
            followed = ran([*command, "--data-dir", tmp_path / "data", name], folder)
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


def test_the_recipe_of_the_api_page_follows_a_training_from_its_run(served: Path, pages: Path) -> None:
    lines = re.findall(
        r"^          (while not.+|for job in.+|    +\S.+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE
    )
    made = tutti(*tiny(served, pages, "data.seed=9", output=("--detach",)))
    assert made.code == 0, made.err
    name = made.out.strip()
    imports = ["import time", "from tutti.client import connect", "from tutti.contracts.common.v1 import GetRequest"]
    program = [*imports, f"client = connect({str(served)!r})", *lines]
    followed = ran([sys.executable, "-c", "\n".join(program).replace("runs/x", name)], ROOT)
    assert followed.returncode == 0, followed.stderr
    steps = [int(line.split()[0]) for line in followed.stdout.splitlines()]
    assert steps == sorted(steps)
    assert steps[-1] == tutti("runs", "show", name, "-o", "json", "--data-dir", served).json()["training"]["steps"]


def test_the_client_alone_follows_a_run(served: Path, pages: Path, tmp_path: Path) -> None:
    """Its package and its dependencies are all that this Python finds."""
    made = tutti("run", "--data", pages, "--set", "data.seed=8", "--detach", "--data-dir", served)
    name = made.out.strip()
    assert tutti("runs", "cancel", name, "--data-dir", served).code == 0
    with zipfile.ZipFile(clientwheel.build(tmp_path / "client")) as wheel:
        wheel.extractall(tmp_path / "found")
    for module in ("google", "grpc", "grpc_status", "typing_extensions"):
        place = importlib.util.find_spec(module)
        assert place is not None
        at = Path(place.origin or next(iter(place.submodule_search_locations or ())))
        at = at.parent if at.name == "__init__.py" else at
        (tmp_path / "found" / at.name).symlink_to(at)
    alone = f"import runpy, sys; sys.path[:0] = [{str(tmp_path / 'found')!r}]; sys.argv = sys.argv[1:]; "
    example = str(ROOT / "examples" / "follow_run.py")
    command = [sys.executable, "-I", "-S", "-c", f"{alone}runpy.run_path(sys.argv[0], run_name='__main__')", example]
    followed = ran([*command, name, "--data-dir", served], tmp_path)
    assert followed.returncode == 0, followed.stderr
    assert followed.stdout.rstrip().endswith("STATE_CANCELLED")
    missing = ran([*command, "runs/none", "--data-dir", served], tmp_path)
    assert missing.returncode == 1
    assert len(missing.stderr.splitlines()) == 1
