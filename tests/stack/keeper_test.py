"""The entry point of a container, compiled, as a process with real children."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tutti.chassis.runtime.healthfile import HealthFile, health_path

SOURCE = Path(__file__).resolve().parents[2] / "deploy" / "docker" / "keeper.c"
FOUND = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
"""The entry point finds Python as in a container."""


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the program; it looks ten times a second, and gives a program up after half a second of silence."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("keeper") / "keeper"
    shorter = [f'-DCHOSEN="{program}.data"', "-DSILENCE_SECONDS=0.5", "-DLOOK_SECONDS=0.1"]
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", *shorter, "-o", program, SOURCE], check=True)
    return program


def start(keeper: Path, folder: Path, code: str, **environment: str) -> "subprocess.Popen[str]":
    """The entry point with a program of this code; what the program prints is read from its output."""
    (folder / "program.py").write_text(code)
    return subprocess.Popen(
        [keeper, "program"],
        cwd=folder,
        env={**os.environ, **FOUND, "PYTHONPATH": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("pass", 0)])
def test_the_exit_code_is_the_programs(keeper: Path, tmp_path: Path, end: str, code: int) -> None:
    assert start(keeper, tmp_path, f"import os, sys\n{end}\n").wait(30) == code


def test_a_program_imports_nothing_from_the_working_directory(keeper: Path, tmp_path: Path) -> None:
    here, programs = tmp_path / "here", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()
    (here / "queue.py").write_text("raise SystemExit(9)\n")
    (programs / "program.py").write_text("import queue\n")
    environment = {**os.environ, **FOUND, "PYTHONPATH": str(programs)}
    assert subprocess.run([keeper, "program"], cwd=here, env=environment, timeout=60, check=False).returncode == 0


def test_a_signal_reaches_the_program_which_ends_in_its_own_way(keeper: Path, tmp_path: Path) -> None:
    process = start(
        keeper,
        tmp_path,
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('up')\nsignal.pause()\n",
    )
    assert line(process) == "up"
    process.terminate()
    assert process.wait(30) == 5


def test_a_program_that_has_no_handler_yet_ends_too(keeper: Path, tmp_path: Path) -> None:
    process = start(keeper, tmp_path, "import time\nprint('up')\ntime.sleep(60)\n")
    assert line(process) == "up"
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM


def test_a_health_check_says_why(keeper: Path, tmp_path: Path) -> None:
    def check() -> tuple[int, str]:
        done = subprocess.run(
            [keeper, "--check", "ingest"],
            env={**os.environ, "TUTTI_DATA_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip()

    (tmp_path / "endpoints").mkdir()
    assert check() == (1, "it has not started yet")
    file = HealthFile(health_path(tmp_path, "ingest"))
    file.write("database: away")
    assert check() == (1, "database: away")
    file.write("")
    assert check() == (0, "healthy")


def test_a_health_check_reports_a_program_that_no_longer_looks(keeper: Path, tmp_path: Path) -> None:
    (tmp_path / "endpoints").mkdir()
    path = health_path(tmp_path, "ingest")
    HealthFile(path).write("database: away")
    os.utime(path, (0, 0))
    environment = {**os.environ, "TUTTI_DATA_DIR": str(tmp_path)}
    done = subprocess.run([keeper, "--check", "ingest"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("no word for ")
    assert done.stdout.endswith("; the last one: database: away\n")


def test_a_program_whose_heartbeats_end_is_killed_with_its_stacks(keeper: Path, tmp_path: Path) -> None:
    process = start(
        keeper,
        tmp_path,
        "import time\n"
        "from tutti.platform import heartbeatpipe\n"
        "pulse = heartbeatpipe.hold(lambda: None)\n"
        "pulse.beat()\n"
        "def stuck():\n"
        "    time.sleep(60)\n"
        "stuck()\n",
    )
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 137
    assert "program: no heartbeat for 0.5 s; killed" in errors
    assert "in stuck" in errors


def test_after_each_silence_the_next_try_has_twice_the_time(keeper: Path, tmp_path: Path) -> None:
    """Its container restarts meanwhile, so the data directory keeps the count."""
    hangs = "import time\nfrom tutti.platform.heartbeatpipe import hold\nhold(lambda: None).beat()\ntime.sleep(60)\n"
    limits = []
    for _ in range(3):
        process = start(keeper, tmp_path, hangs, TUTTI_DATA_DIR=str(tmp_path))
        _, errors = process.communicate(timeout=30)
        limits += re.findall(r"no heartbeat for (\S+) s; killed", errors)
    assert limits == ["0.5", "1", "2"]


@pytest.mark.parametrize("words", [[], ["--chek", "ingest"]])
def test_wrong_arguments_are_a_clear_error(keeper: Path, words: list[str]) -> None:
    done = subprocess.run([keeper, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected MODULE [ARGUMENT ...], such as tutti.scheduler, or --check PART" in done.stderr


def test_replicas_share_a_volume_and_take_up_what_one_of_them_left(keeper: Path, tmp_path: Path) -> None:
    """The first free data directory of the volume: those of containers that are gone are used again."""
    volume = tmp_path / "volume"
    volume.mkdir()
    code = "import os, sys\nprint(os.environ['TUTTI_DATA_DIR'], flush=True)\nsys.stdin.read()\n"
    given = {"TUTTI_DATA_DIR": str(volume / "data")}
    first, second = (start(keeper, tmp_path, code, **given) for _ in range(2))
    assert sorted(map(line, (first, second))) == [f"{volume}/data", f"{volume}/data-2"]
    for process in (first, second):
        process.terminate()
        process.wait(30)
    third = start(keeper, tmp_path, code, **given)
    assert line(third) == f"{volume}/data"
    third.terminate()
    third.wait(30)


def test_the_health_of_a_replica_is_that_of_its_own_data_directory(keeper: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "data-2" / "endpoints").mkdir(parents=True)
    given = {"TUTTI_DATA_DIR": str(volume / "data")}
    code = "import time\nprint('up', flush=True)\ntime.sleep(60)\n"
    first = start(keeper, tmp_path, code, **given)
    assert line(first) == "up"
    second = start(keeper, tmp_path, code, **given)
    assert line(second) == "up"
    HealthFile(health_path(volume / "data-2", "part")).write("")
    checked = subprocess.run(
        [keeper, "--check", "part"], env={**os.environ, **given}, capture_output=True, text=True, check=False
    )
    for process in (first, second):
        process.terminate()
        process.wait(30)
    assert (checked.returncode, checked.stdout) == (0, "healthy\n")
