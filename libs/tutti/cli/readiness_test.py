"""Waiting for a platform that starts, as its supervisor's record shows it."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from tutti.chassis.config.datadir import PROCESSES
from tutti.cli.readiness import LONGEST_SECONDS, READY_SECONDS, Wait
from tutti.platform.processes import Recorded, process_id


class Case:
    """A wait with a clock of its own; this process is the supervisor."""

    def __init__(self, folder: Path) -> None:
        self.now, self.told, self._folder = 0.0, list[str](), folder
        self.wait = Wait(folder, now=lambda: self.now, tell=self.told.append)

    def host(self, *, pid: int, restarts: int = 0, exit: str = "", stopping: bool = False) -> None:
        host = Recorded("host", "running" if pid else "waiting", pid, 0, "", restarts, exit)
        record = {"supervisor": asdict(process_id(os.getpid())), "stopping": stopping, "children": [asdict(host)]}
        (self._folder / PROCESSES).write_text(json.dumps(record))

    def limit(self) -> float:
        """The time at which it is given up."""
        while not self.wait.over():
            self.now += 5.0
        return self.now - 5.0


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_a_host_that_starts_is_waited_for_as_long_as_its_supervisor_gives_it_time(case: Case) -> None:
    case.host(pid=7)
    assert case.limit() == LONGEST_SECONDS
    assert len(case.told) == 1
    assert "process 7" in case.wait.missing()


def test_a_host_that_was_killed_for_its_silence_has_more_time(case: Case) -> None:
    case.host(pid=8, restarts=2, exit="no word for 120 s")
    assert case.limit() == LONGEST_SECONDS


def test_a_host_that_ends_again_and_again_is_given_up_soon(case: Case) -> None:
    case.host(pid=0, restarts=3, exit="SIGKILL")
    assert case.limit() == READY_SECONDS


def test_a_supervisor_that_stops_or_never_comes_is_given_up_soon(case: Case) -> None:
    assert case.limit() == READY_SECONDS
    case.host(pid=7, stopping=True)
    assert case.wait.over()


def test_who_waits_is_told_once_for_whom_and_again_when_that_changes(case: Case) -> None:
    case.host(pid=7)
    for case.now in (1.0, 11.0, 12.0):
        case.wait.over()
    assert len(case.told) == 1
    case.host(pid=8, restarts=1, exit="no word for 60 s")
    case.wait.over()
    case.wait.over()
    assert len(case.told) == 2
