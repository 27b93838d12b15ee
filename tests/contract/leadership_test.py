"""Leaders on Postgres that are killed, stopped (SIGSTOP) or have a wrong clock: one writes at a time, by its term."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.contract.leading import TTL

HOUR = 3600


class Process:
    """A replica process (tests.contract.leading) that carries out commands."""

    def __init__(self, url: str, schema: str, holder: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.leading", url, schema, holder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.hear() == "up"

    def say(self, line: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()

    def hear(self) -> str:
        assert self.child.stdout is not None
        return self.child.stdout.readline().strip()

    def tell(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def close(self) -> None:
        self.child.kill()
        self.child.communicate()


Start = Callable[[str], Process]


@pytest.fixture
def start(postgres_url: str, unique: str) -> Iterator[Start]:
    started: list[Process] = []

    def make(holder: str) -> Process:
        started.append(Process(postgres_url, unique, holder))
        return started[-1]

    yield make
    for each in started:
        each.close()


@pytest.fixture
def written(postgres_url: str, unique: str) -> Callable[[], list[tuple[Any, ...]]]:
    def read() -> list[tuple[Any, ...]]:
        with closing(psycopg.connect(postgres_url)) as reader:
            reader.execute(f"SET search_path = {unique}".encode())
            return reader.execute(b"SELECT term, what FROM written ORDER BY 1").fetchall()

    return read


def succeed(second: Process, cause: str) -> None:
    began = time.monotonic()
    assert second.tell("lead") == "leads 2"
    print(f"{cause}: another leads after {time.monotonic() - began:.1f} s (lease {TTL:g} s)")


def test_a_killed_leader_is_succeeded_in_a_higher_term(start: Start, written: Callable[[], list[Any]]) -> None:
    first, second = start("a"), start("b")
    assert (first.tell("lead"), first.tell("write")) == ("leads 1", "wrote")
    first.signal(signal.SIGKILL)
    succeed(second, "SIGKILL")
    assert second.tell("write") == "wrote"
    assert written() == [(1, "plain"), (2, "plain")]


def test_a_stopped_leader_that_wakes_up_writes_nothing(start: Start, written: Callable[[], list[Any]]) -> None:
    first, second = start("a"), start("b")
    assert first.tell("lead") == "leads 1"
    first.signal(signal.SIGSTOP)
    first.say("write")
    succeed(second, "SIGSTOP")
    first.signal(signal.SIGCONT)
    assert first.hear() == "refused"
    assert written() == []
    assert second.tell("write") == "wrote"


def test_a_leader_that_is_stopped_inside_a_transaction_keeps_nobody_waiting(
    start: Start, written: Callable[[], list[Any]]
) -> None:
    """It holds the row of the lease; the server ends its session, and with it its write."""
    first, second = start("a"), start("b")
    assert first.tell("lead") == "leads 1"
    assert first.tell("hold") == "inside"
    first.signal(signal.SIGSTOP)
    succeed(second, "SIGSTOP inside a transaction")
    first.signal(signal.SIGCONT)
    first.say("go on")
    assert first.hear() == "refused"
    assert written() == []


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_a_clock_that_is_an_hour_off_gives_nobody_the_lease_of_another(start: Start, skew: int) -> None:
    first, second = start("a"), start("b")
    assert first.tell("lead") == "leads 1"
    assert second.tell(f"skew {skew}") == "skewed"
    second.say("lead")
    assert [first.tell("lead") for _ in range(5)] == ["leads 1"] * 5
    assert first.tell("write") == "wrote"  # the lease was not taken by who thinks it lapsed long ago
    first.signal(signal.SIGKILL)
    assert second.hear() == "leads 2"
