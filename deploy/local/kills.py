"""Kills on a schedule: SIGKILL of a server, a service or an agent once training has crossed a step.

Promises: each happens once, in the order of the steps; a platform that does not answer just then is asked again.
"""

import os
import signal
import threading
import time
from argparse import ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path

from roster import kept

from tutti.chassis.client import Client, connect
from tutti.chassis.errors import Problem
from tutti.contracts.common.v1 import ListRequest

LOOK_SECONDS = 0.05


@dataclass(frozen=True, order=True)
class Kill:
    step: int
    name: str

    @classmethod
    def parse(cls, text: str) -> "Kill":
        """`kafka@10`. Raises ArgumentTypeError."""
        name, at, step = text.partition("@")
        if not (name and at and step.isdigit()):
            raise ArgumentTypeError(f"{text!r}: expected NAME@STEP, such as kafka@10")
        return cls(int(step), name)


class Killer:
    """Carries kills out while a run goes on, in a thread of its own; `done` is what it did."""

    def __init__(self, data_dir: Path, kills: list[Kill]) -> None:
        self._data_dir, self._due = data_dir, sorted(kills)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kills", daemon=True)
        self.done: list[str] = []
        self.left = list(self._due)

    def start(self) -> None:
        if self._due:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._due:
            self._thread.join()

    def _run(self) -> None:
        with connect(self._data_dir, deadline_seconds=2.0) as client:
            while self.left and not self._stop.wait(LOOK_SECONDS):
                if _step(client) >= self.left[0].step:
                    self._carry_out(self.left.pop(0))

    def _carry_out(self, kill: Kill) -> None:
        found = next((each for each in kept(self._data_dir) if each.name == kill.name), None)
        if found is None or not found.pid:
            self.done.append(f"{kill.name} was not running at step {kill.step}")
            return
        os.kill(found.pid, signal.SIGKILL)
        self.done.append(f"killed {kill.name} (pid {found.pid}) after step {kill.step}")
        began = time.monotonic()
        while not self._stop.wait(LOOK_SECONDS):
            now = next((each for each in kept(self._data_dir) if each.name == kill.name), None)
            if now is not None and now.pid and now.pid != found.pid:
                self.done.append(f"{kill.name} is back as pid {now.pid} after {time.monotonic() - began:.1f} s")
                return


def _step(client: Client) -> int:
    """The last step that any job has crossed; -1 when nobody can say."""
    try:
        return max((job.step for job in client.scheduler.ListJobs(ListRequest()).jobs), default=-1)
    except Problem:
        return -1
