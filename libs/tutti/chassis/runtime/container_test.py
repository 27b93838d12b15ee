"""The entry point of a container, as a process with real children."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tutti.chassis.runtime.healthfile import HealthFile, health_path


def start(folder: Path, code: str) -> "subprocess.Popen[str]":
    """The entry point with a program of this code; what the program prints is read from its output."""
    (folder / "program.py").write_text(code)
    return subprocess.Popen(
        [sys.executable, "-m", "tutti.chassis.runtime.container", "program"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("pass", 0)])
def test_the_exit_code_is_the_programs(tmp_path: Path, end: str, code: int) -> None:
    assert start(tmp_path, f"import os, sys\n{end}\n").wait(30) == code


def test_a_signal_reaches_the_program_which_ends_in_its_own_way(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('up')\nsignal.pause()\n",
    )
    assert line(process) == "up"
    process.terminate()
    assert process.wait(30) == 5


def test_a_program_that_has_no_handler_yet_ends_too(tmp_path: Path) -> None:
    process = start(tmp_path, "import time\nprint('up')\ntime.sleep(60)\n")
    assert line(process) == "up"
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM


def test_a_health_check_says_why(tmp_path: Path) -> None:
    def check() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "tutti.chassis.runtime.container", "--check", "ingest"],
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


def test_a_program_whose_heartbeats_end_is_killed_with_its_stacks(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import time\n"
        "from tutti.chassis.runtime import leash\n"
        "pulse = leash.hold(lambda: None)\n"
        "pulse.beat()\n"
        "def stuck():\n"
        "    time.sleep(60)\n"
        "stuck()\n"
    )
    short = "import sys; from tutti.chassis.runtime import container; container.SILENCE_SECONDS = 0.5; "
    done = subprocess.run(
        [sys.executable, "-c", f"{short} container.LOOK_SECONDS = 0.1; sys.exit(container.main(['program']))"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 137
    assert "program: no heartbeat for 0.5 s; killed" in done.stderr
    assert "in stuck" in done.stderr
