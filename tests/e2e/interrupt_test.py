"""Ctrl-C and SIGTERM at any time: exit code 130, nothing left running, and the same command goes on where it was."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, platform, run_process, start, tiny, tutti
from tests.faults.processes import blobs, family, until
from tutti.chassis.config.datadir import DataDir
from tutti.cli.runs import ENDS_WITH_COMMAND

Begin = Callable[..., subprocess.Popen[str]]


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
    _, err = process.communicate(timeout=400)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert family(data_dir) == []
    return err


def test_an_interrupted_run_is_resumed_by_the_same_command(pages: Path, tmp_path: Path, begin: Begin) -> None:
    """Early by Ctrl-C, then while it trains by SIGTERM."""
    data_dir = tmp_path / "data"
    for nth, number in ((2, signal.SIGINT), (14, signal.SIGTERM)):
        process = begin(*tiny(data_dir, pages))
        until((data_dir / "lock").exists, seconds=60, what="the data directory")
        until(lambda: blobs(data_dir) >= nth, seconds=60, what=f"blob {nth}")  # noqa: B023
        process.send_signal(number)
        said = interrupted(process, data_dir)
        assert "tutti: interrupted" in said
        assert nth < 14 or "stopping; " in said
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


def test_a_command_that_waits_for_the_platform_of_another_can_be_interrupted(
    pages: Path, tmp_path: Path, begin: Begin
) -> None:
    lock = DataDir(tmp_path).lock("a platform that never answers")
    process = begin(*tiny(tmp_path, pages))
    await_words(process, "which another command starts or stops")
    process.send_signal(signal.SIGINT)
    assert interrupted(process, tmp_path).splitlines()[-1] == "tutti: interrupted"
    lock.release()


def test_a_second_interrupt_does_not_cut_the_end_of_a_platform_short(tmp_path: Path, begin: Begin) -> None:
    process = begin("up", "--data-dir", tmp_path)
    assert process.stderr is not None
    assert any("Ctrl-C stops it" in line for line in iter(process.stderr.readline, ""))  # waits may be told before
    process.send_signal(signal.SIGINT)
    until(lambda: "stopping " in (tmp_path / "logs" / "supervisor.log").read_text(), seconds=60, what="the drain")
    process.send_signal(signal.SIGINT)
    interrupted(process, tmp_path, code=0)
    assert "stopping: SIGTERM" in (tmp_path / "logs" / "host.log").read_text()


def test_a_platform_ends_with_the_command_that_started_it_even_when_that_is_killed(
    tmp_path: Path, begin: Begin
) -> None:
    process = begin("up", "--data-dir", tmp_path)
    until((tmp_path / "endpoint").exists, seconds=60, what="the platform")
    process.kill()
    until(lambda: family(tmp_path) == [], seconds=60, what="the end of the platform")
    assert "stopping: SIGTERM" in (tmp_path / "logs" / "host.log").read_text()


def await_words(process: subprocess.Popen[str], words: str) -> None:
    """Until it says them."""
    assert process.stderr is not None
    assert any(words in line for line in iter(process.stderr.readline, ""))


def test_stops_before_the_first_checkpoint_cost_the_run_nothing_but_those_steps(
    pages: Path, tmp_path: Path, begin: Begin
) -> None:
    """By Ctrl-C, and by `tutti down` from elsewhere, more often than attempts may fail."""
    long = tiny(tmp_path, pages, "train.steps=100000", "train.checkpoint_every=50000", "train.attempts=1", output=())
    names = set()
    for epoch, way in enumerate(("down", "interrupt"), start=1):
        process = begin(*long)
        await_words(process, f"epoch {epoch}: 2 ranks")
        if way == "down":
            assert tutti("down", "--data-dir", tmp_path).code == 0
        else:
            process.send_signal(signal.SIGINT)
        said = interrupted(process, tmp_path).splitlines()[-1]
        how, _, name = said.partition("; the same command resumes ")
        assert how == ("tutti: stopped by `tutti down`" if way == "down" else "tutti: interrupted")
        names.add(name)
    assert len(names) == 1
    with platform(tmp_path, agents=0):
        (run,) = tutti("runs", "ls", "-o", "json", "--data-dir", tmp_path).json()
        (listed,) = tutti("jobs", "ls", "-o", "json", "--data-dir", tmp_path).json()
        job = tutti("jobs", "show", listed["name"], "-o", "json", "--data-dir", tmp_path).json()
    assert (run["name"], run["state"]) == (names.pop(), "running")
    history = [line.partition(": ")[2] for line in job["history"]]
    assert [line for line in history if "I/O child" not in line][:4] == 2 * [  # one may be replaced before it ends
        "2 ranks on nodes/a from the start",
        "the agent of nodes/a was asked to stop",
    ]


def test_an_interrupt_leaves_a_run_of_a_platform_that_is_up_alone_and_its_end_is_told_in_words(
    pages: Path, tmp_path: Path, begin: Begin
) -> None:
    up = run_process("up", "--detach", "--data-dir", tmp_path)  # the supervisor must not be a child of this process
    assert up.code == 0, up.err
    assert f"`tutti down --data-dir {tmp_path}` stops it" in up.err
    command = tiny(tmp_path, pages, "train.steps=100000", output=())
    try:
        process = begin(*command)
        await_words(process, "step ")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=400)
        (run,) = tutti("runs", "ls", "-o", "json", "--data-dir", tmp_path).json()
        assert process.returncode == 130
        assert err.splitlines()[-1].startswith(f"tutti: stopped watching; {run['name']} goes on: `tutti runs show ")
        assert run["state"] == "running"
        process = begin("runs", "follow", run["name"], "--data-dir", tmp_path, extra={ENDS_WITH_COMMAND: "1"})
        await_words(process, "step ")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=400)
        assert err.splitlines()[-1] == f"tutti: interrupted; the same command resumes {run['name']}"
        process = begin(*command)
        await_words(process, "step ")
    finally:
        down = tutti("down", "--data-dir", tmp_path)
    assert down.code == 0, down.err
    _, err = process.communicate(timeout=400)
    assert process.returncode == 130
    assert err.splitlines()[-1] == f"tutti: stopped by `tutti down`; the same command resumes {run['name']}"
    until(lambda: family(tmp_path) == [], seconds=60, what="the end of the platform")
    assert "nothing to stop" in tutti("down", "--data-dir", tmp_path).err
