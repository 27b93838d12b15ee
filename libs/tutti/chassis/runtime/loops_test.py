"""Threads of loops: stepped, woken, slowed down by errors, ended by name."""

import threading
from collections.abc import Callable

import pytest

from tutti.backbone import SystemClock
from tutti.backbone.database import DatabaseUnavailable
from tutti.chassis.demo_test import eventually
from tutti.chassis.runtime.loops import LoopThread, drain


class Counting:
    """Calls `work` each step; idle after it."""

    def __init__(self, name: str, work: Callable[[int], object], interval: float = 600.0) -> None:
        self.name, self.interval = name, interval
        self.woken = threading.Event()
        self.steps = 0
        self._work = work

    def step(self) -> bool:
        self.steps += 1
        return bool(self._work(self.steps))


def started(loop: Counting) -> LoopThread:
    thread = LoopThread(loop, clock=SystemClock(), watch=None)
    thread.start()
    return thread


def test_a_loop_goes_on_at_once_while_it_has_something_to_do_and_when_woken() -> None:
    loop = Counting("busy", lambda step: step < 5)
    thread = started(loop)
    eventually(lambda: loop.steps == 5)
    loop.woken.set()
    eventually(lambda: loop.steps == 6)
    assert drain([thread], 5) == []


def test_a_loop_that_raises_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def work(step: int) -> bool:
        if step == 1:
            raise ValueError("a defect")
        if step == 2:
            raise DatabaseUnavailable("it restarts")
        return False

    loop = Counting("failing", work)
    thread = started(loop)
    eventually(lambda: loop.steps == 3)
    assert drain([thread], 5) == []
    first, second = (record for record in caplog.records if record.message.startswith("failing"))
    assert first.exc_info
    assert not second.exc_info
    assert "it restarts" in second.message


def test_a_loop_that_fails_again_and_again_is_in_trouble_until_it_works() -> None:
    fails = threading.Event()
    fails.set()

    def work(step: int) -> bool:
        if fails.is_set():
            raise DatabaseUnavailable("the disk is full")
        return False

    thread = started(Counting("relay", work))
    assert eventually(lambda: thread.trouble) == ("relay fails again and again: DatabaseUnavailable: the disk is full")
    fails.clear()
    eventually(lambda: not thread.trouble)
    assert drain([thread], 5) == []


def test_those_that_do_not_end_in_time_are_named() -> None:
    release = threading.Event()
    stuck, idle = Counting("stuck", lambda step: release.wait(30)), Counting("idle", lambda step: False)
    threads = [started(stuck), started(idle)]
    eventually(lambda: stuck.steps)
    assert drain(threads, 0.2) == ["stuck"]
    release.set()
    assert drain(threads, 5) == []
