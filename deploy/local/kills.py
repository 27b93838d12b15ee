"""Kills on a schedule: SIGKILL of a server, a service or an agent once a stage has begun or a step was crossed.

Promises: each happens once, without waiting for another to heal; a platform that does not answer just then is asked
again.
"""

import contextlib
import os
import signal
import threading
from argparse import ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path

from roster import kept

from tutti.chassis.errors import Problem
from tutti.client import Client, connect
from tutti.contracts.common.v1 import STATE_RUNNING, GetRequest, ListRequest
from tutti.contracts.pipeline.v1 import Run

LOOK_SECONDS = 0.05
STAGES = ("ingest", "filter", "dedup", "tokenization", "train")


@dataclass(frozen=True)
class Kill:
    """`moment`: a step that any job has crossed, or a stage that has begun."""

    name: str
    moment: str

    @classmethod
    def parse(cls, text: str) -> "Kill":
        """`kafka@10` or `postgres@dedup`. Raises ArgumentTypeError."""
        name, at, moment = text.partition("@")
        if not (name and at and (moment.isdigit() or moment in STAGES)):
            raise ArgumentTypeError(
                f"{text!r}: expected NAME@STEP or NAME@STAGE, such as kafka@10 or postgres@dedup; "
                f"stages: {', '.join(STAGES)}"
            )
        return cls(name, moment)

    def __str__(self) -> str:
        return f"{self.name}@{self.moment}"


class Killer:
    """Carries kills out while a run goes on, in a thread of its own; `done` is what it did, `left` what it has not."""

    def __init__(self, data_dir: Path, kills: list[Kill]) -> None:
        self._data_dir = data_dir
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kills", daemon=True)
        self.done: list[str] = []
        self.left = list(kills)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with connect(self._data_dir, deadline_seconds=2.0) as client:
            before = {run.name for run in _runs(client) if run.state > STATE_RUNNING}
            while self.left and not self._stop.wait(LOOK_SECONDS):
                reached = _reached(client, before)
                for kill in [each for each in self.left if each.moment in reached]:
                    self.left.remove(kill)
                    self._carry_out(kill)

    def _carry_out(self, kill: Kill) -> None:
        found = next((each for each in kept(self._data_dir) if each.name == kill.name), None)
        if found is None or not found.pid:
            self.done.append(f"{kill} had nothing to kill: it was not running")
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGKILL)
        self.done.append(f"killed {kill.name} (pid {found.pid}) after {kill.moment}")


def _runs(client: Client) -> list[Run]:
    """None of them when nobody can say."""
    try:
        return list(client.pipeline.ListRuns(ListRequest()).runs)
    except Problem:
        return []


def _reached(client: Client, before: set[str]) -> set[str]:
    """The moments of runs that had not ended before: stages that began, steps that were crossed."""
    stages = [stage for run in _runs(client) if run.name not in before for stage in run.stages]
    found = {stage.name for stage in stages if stage.state >= STATE_RUNNING and not stage.reused}
    for stage in stages:
        if stage.name == "train" and stage.resource:
            with contextlib.suppress(Problem):
                job = client.scheduler.GetJob(GetRequest(name=stage.resource))
                found |= {str(step) for step in range(job.step + 1)} if job.step else set()
    return found
