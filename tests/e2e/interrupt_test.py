"""Ctrl-C at any time: exit code 130, nothing left running, and the same command goes on where it was."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, start, tiny, tutti
from tests.faults.processes import blobs, family, until

Begin = Callable[..., subprocess.Popen[str]]
pytestmark = [pytest.mark.xdist_group("e2e-interrupt"), pytest.mark.timeout(600)]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a command that ends with its test, whatever becomes of it."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*arguments: str | Path, extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        begun.append(start(*arguments, extra=extra))
        return begun[-1]

    yield begin
    for process in begun:
        process.terminate()
        process.wait(60)


def interrupted(process: subprocess.Popen[str], data_dir: Path, code: int = 130) -> str:
    """It ended in words and left nobody behind; the words."""
    _, err = process.communicate(timeout=90)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert family(data_dir) == []
    return err


@pytest.mark.parametrize("nth", [2, 14])
def test_an_interrupted_run_is_resumed_by_the_same_command(nth: int, pages: Path, tmp_path: Path, begin: Begin) -> None:
    data_dir = tmp_path / "data"
    process = begin(*tiny(data_dir, pages))
    until((data_dir / "lock").exists, seconds=60, what="the data directory")
    until(lambda: blobs(data_dir) >= nth, seconds=60, what=f"blob {nth}")
    process.send_signal(signal.SIGINT)
    interrupted(process, data_dir)
    again = tutti(*tiny(data_dir, pages))
    assert again.code == 0, again.err
    assert sorted(checkpoints(again.json())) == [5, 10, 15, 20]


def test_a_command_that_still_loads_its_modules_can_be_interrupted(tmp_path: Path, begin: Begin) -> None:
    process = begin("up", "--data-dir", tmp_path / "data", extra={"PYTHONPROFILEIMPORTTIME": "1"})
    assert process.stderr is not None
    assert any(line.split()[-1:] == ["click"] for line in iter(process.stderr.readline, ""))
    process.send_signal(signal.SIGINT)
    assert interrupted(process, tmp_path / "data").splitlines()[-1] == "tutti: interrupted"
    assert not (tmp_path / "data").exists()


def test_a_platform_that_starts_can_be_interrupted(tmp_path: Path, begin: Begin) -> None:
    process = begin("up", "--data-dir", tmp_path)
    until((tmp_path / "host.lock").exists, seconds=60, what="the host")
    process.send_signal(signal.SIGINT)
    assert interrupted(process, tmp_path).splitlines()[-1] == "tutti: interrupted"


def test_a_second_interrupt_does_not_cut_the_end_of_a_platform_short(tmp_path: Path, begin: Begin) -> None:
    process = begin("up", "--data-dir", tmp_path)
    assert process.stderr is not None
    assert "Ctrl-C stops it" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    until(lambda: "stops " in (tmp_path / "logs" / "supervisor.log").read_text(), seconds=60, what="the drain")
    process.send_signal(signal.SIGINT)
    interrupted(process, tmp_path, code=0)
    assert "stops: SIGTERM" in (tmp_path / "logs" / "host.log").read_text()
