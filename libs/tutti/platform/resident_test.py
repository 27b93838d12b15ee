"""The resident process: its memory stays from call to call, and what happens when it is killed, stopped or silent."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.chassis import progress
from tutti.chassis.config.memory import KILLED
from tutti.chassis.progress import Progress
from tutti.platform import workers
from tutti.platform.pool import PoolCancelled, ProcessPool, WorkerDied
from tutti.platform.processes import gone, process_id
from tutti.platform.resident import Resident

_seen: list[str] = []


def remember(word: str) -> tuple[int, list[str]]:
    _seen.append(word)
    return os.getpid(), list(_seen)


def work_until(mark: str) -> str:
    """Report progress until a file exists."""
    steps = 0
    while not Path(mark).exists():
        steps += 1
        progress.say(steps, unit="steps")
        time.sleep(0.01)
    return "done"


def say_nothing(mark: str = "") -> None:
    if mark:
        Path(mark).touch()
    time.sleep(600)


def give(size: int) -> bytes:
    return b"x" * size


@pytest.fixture
def resident() -> Iterator[Resident]:
    made = Resident("models", idle_seconds=60, silence_seconds=60)
    yield made
    made.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STOPPED_SECONDS", 0.5)


def test_its_memory_stays_from_call_to_call(resident: Resident) -> None:
    first, seen = resident.run(remember, "one")
    assert seen == ["one"]
    assert resident.run(remember, "two") == (first, ["one", "two"])
    assert _seen == []
    assert b"models" in Path(f"/proc/{first}/cmdline").read_bytes().split(b"\0")


def test_one_that_was_killed_is_named_and_replaced(
    resident: Resident, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, _ = resident.run(remember, "one")

    def hear(said: Progress) -> None:
        os.kill(first, signal.SIGKILL)

    with pytest.raises(WorkerDied) as caught:
        resident.watch(lambda: False, hear, work_until, str(tmp_path / "never"))
    words = f"the resident process models (process {first}) that ran work_until was ended by SIGKILL ({KILLED})"
    assert str(caught.value) == words
    assert f"{words}; the next call starts another one" in caplog.messages
    second, seen = resident.run(remember, "two")
    assert (second != first, seen) == (True, ["two"])


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("busy", [True, False])
def test_one_that_a_signal_stopped_is_killed_and_replaced(resident: Resident, tmp_path: Path, busy: bool) -> None:
    first, _ = resident.run(remember, "one")
    if busy:
        with pytest.raises(WorkerDied, match=r"models \(process \d+\) that ran work_until was stopped by a signal for"):
            resident.watch(
                lambda: False, lambda said: os.kill(first, signal.SIGSTOP), work_until, str(tmp_path / "never")
            )
    else:
        os.kill(first, signal.SIGSTOP)
    assert resident.run(remember, "two")[1] == ["two"]
    assert not process_id(first).alive()


@pytest.mark.usefixtures("impatient")
def test_a_large_function_for_a_stopped_process_goes_to_another(
    resident: Resident, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "TRANSFER_SECONDS", 1)
    first, _ = resident.run(remember, "one")
    os.kill(first, signal.SIGSTOP)
    assert resident.run(remember, "x" * (8 << 20))[1] == ["x" * (8 << 20)]
    assert not process_id(first).alive()


def test_one_that_reports_no_progress_is_killed() -> None:
    resident = Resident("models", idle_seconds=60, silence_seconds=0.5)
    try:
        with pytest.raises(WorkerDied, match=r"that ran say_nothing reported no progress for 0\.5 s"):
            resident.run(say_nothing)
        resident.silence_seconds = 60.0
        assert resident.run(remember, "two")[1] == ["two"]
    finally:
        resident.close()


def test_a_cancelled_call_ends_at_its_next_word_and_the_memory_stays(resident: Resident, tmp_path: Path) -> None:
    first, _ = resident.run(remember, "one")
    heard: list[Progress] = []
    with pytest.raises(PoolCancelled):
        resident.watch(lambda: bool(heard), heard.append, work_until, str(tmp_path / "never"))
    assert resident.run(remember, "two") == (first, ["one", "two"])


def test_a_cancelled_call_that_does_not_end_is_killed(
    resident: Resident, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tutti.platform.resident.ABANDON_SECONDS", 0.2)
    first, _ = resident.run(remember, "one")
    with pytest.raises(PoolCancelled):
        resident.run_until((tmp_path / "begun").exists, say_nothing, str(tmp_path / "begun"))
    assert not process_id(first).alive()
    assert resident.run(remember, "two")[1] == ["two"]


def test_a_large_result_comes_back_whole(resident: Resident) -> None:
    assert resident.run(give, 32 << 20) == b"x" * (32 << 20)


def test_a_pool_without_a_resident_process_serves_such_calls_itself() -> None:
    pool = ProcessPool(1)
    try:
        assert pool.resident.run(remember, "one")[1] == ["one"]
    finally:
        pool.close()


PARENT = """
import sys, time
from tutti.platform.resident import Resident
from tutti.platform.resident_test import remember, say_nothing
resident = Resident("models", idle_seconds=600, silence_seconds=600)
print(resident.run(remember, "one")[0], flush=True)
if sys.argv[1] == "busy":
    resident.run(say_nothing)
time.sleep(600)
"""


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_it_ends_with_its_parent(state: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, state], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = process_id(int(parent.stdout.readline()))
    assert child.alive()
    parent.kill()
    parent.wait(10)
    assert gone(child, 15)
    parent.stdout.close()
