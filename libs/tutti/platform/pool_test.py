"""The pool: results, errors, cancellation, and what a worker does not inherit."""

import os
import resource
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.backbone import ManualClock
from tutti.chassis import progress
from tutti.chassis.config.memory import TOO_LITTLE, named
from tutti.chassis.demo_test import eventually
from tutti.chassis.errors import is_transient
from tutti.chassis.progress import SAY_SECONDS, Progress, Speaker
from tutti.platform.pool import PoolCancelled, PoolClosed, ProcessPool, WorkerDied
from tutti.platform.processes import process_id


def add(left: int, right: int) -> int:
    return left + right


def refuse(text: str) -> None:
    raise ValueError(text)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def starve() -> None:
    """Allocate more than the memory limit of this process allows."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20), resource.RLIM_INFINITY))
    bytearray(1 << 30)


def talk(words: int) -> int:
    for word in range(words):
        progress.say(word + 1, words, unit="words")
    return words


def sleep_forever(mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    time.sleep(600)


def own_sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode)
        except FileNotFoundError:
            continue
    return found


def inherited() -> dict[str, str]:
    return dict(os.environ)


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    made = ProcessPool(2)
    yield made
    made.close()


def test_results_and_errors_come_back(pool: ProcessPool) -> None:
    assert pool.run(add, 2, right=3) == 5
    with pytest.raises(ValueError, match="no"):
        pool.run(refuse, "no")
    assert pool.run(os.getpid) != os.getpid()


def test_what_a_function_says_of_its_progress_is_heard_before_its_result(pool: ProcessPool) -> None:
    heard: list[Progress] = []
    assert pool.watch(lambda: False, heard.append, talk, 9_000) == 9_000
    assert heard[0] == Progress(1, 9_000, "words")
    heard.clear()
    assert pool.watch(lambda: False, heard.append, add, 2, 3) == 5
    assert heard == []
    assert pool.run(talk, 3) == 3
    assert talk(3) == 3


def test_a_talkative_function_is_heard_now_and_then() -> None:
    clock, heard = ManualClock(), list[Progress]()
    speaker = Speaker(heard.append, clock.monotonic)
    for at in range(1, 11):
        speaker.say(at, 10, "steps")
        clock.advance(SAY_SECONDS / 4)
    assert [each.done for each in heard] == [1, 5, 9]


def test_a_worker_is_used_again_and_one_that_died_is_replaced(pool: ProcessPool) -> None:
    first = pool.run(os.getpid)
    assert pool.run(os.getpid) == first
    with pytest.raises(WorkerDied, match=r"die was ended by SIGKILL \(by the kernel, if memory ran out"):
        pool.run(die)
    assert pool.run(os.getpid) != first


def test_memory_that_runs_out_in_a_worker_is_an_error_here_with_what_to_do(pool: ProcessPool) -> None:
    with pytest.raises(MemoryError) as raised:
        pool.run(starve)
    assert TOO_LITTLE in named(raised.value)


def test_a_worker_inherits_no_socket_but_its_own(pool: ProcessPool) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.set_inheritable(True)
        listening.listen()
        assert pool.run(own_sockets) == 1


def test_what_is_cancelled_is_gone(pool: ProcessPool, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with pytest.raises(PoolCancelled):
        pool.run_until(lambda: mark.exists() and mark.read_text() != "", sleep_forever, str(mark))
    worker = int(mark.read_text())
    eventually(lambda: not process_id(worker).alive())


def test_closing_ends_what_runs(pool: ProcessPool, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    raised: list[BaseException] = []

    def run() -> None:
        try:
            pool.run(sleep_forever, str(mark))
        except PoolClosed as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(mark.exists)
    pool.close()
    thread.join(10)
    assert [is_transient(error) for error in raised] == [True]


def test_a_worker_has_no_secrets_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "TUTTI_DATABASE__URL": "postgresql://a:hidden@h/d",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "HF_TOKEN": "hidden",
        "HTTPS_PROXY": "http://user:hidden@proxy:3128",
    }
    for name, value in {**secrets, "TOKENIZERS_PARALLELISM": "false"}.items():
        monkeypatch.setenv(name, value)
    pool = ProcessPool(1)
    try:
        found = pool.run(inherited)
    finally:
        pool.close()
    assert "hidden" not in " ".join(found.values())
    assert found["TOKENIZERS_PARALLELISM"] == "false"
    assert found["PATH"] == os.environ["PATH"]
