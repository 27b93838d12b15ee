"""Rounds of faults on a stack, drawn by seed: servers, services, agents and ranks are killed or hang during a run, and
the run ends by itself with the states of an embedded platform. Then each server hangs for minutes of a training.

`ROUNDS` and `LONG_SECONDS` in the environment replace the full numbers.
"""

import json
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from tests.e2e.command import checkpoints, tiny, tutti
from tests.faults.part_test import ranks
from tests.faults.processes import until
from tests.scale import SOAK, scale
from tests.stack.conftest import processes
from tests.stack.observed import hanging, trains
from tutti.chassis.config.settings import installed_services

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/stack/stack_test.py has three deaths and a hang"),
]
ROUNDS = int(os.environ.get("ROUNDS", "40"))
LONG_SECONDS = float(os.environ.get("LONG_SECONDS", "300"))
SERVERS = ("kafka", "postgres", "s3")
AGENTS = ("agent-a", "agent-b")
RANK = "rank"
HANGS, WEIGHTS = (2.0, 5.0, 25.0, 70.0), (45, 40, 12, 3)
LATEST_SECONDS = 8.0
HEALED_SECONDS = 180.0


@dataclass(frozen=True)
class Fault:
    """A process is stopped for `hangs` seconds, or killed where that is 0, `after` seconds from the start of a run."""

    after: float
    name: str
    hangs: float

    def __str__(self) -> str:
        what = f"hangs for {self.hangs:g} s" if self.hangs else "is killed"
        return f"{self.name} {what} after {self.after:.1f} s"


def faults(seed: int) -> list[Fault]:
    """One to three faults, the first first; equal for equal seeds."""
    drawn = random.Random(seed)
    names = (*SERVERS, *SERVERS, *installed_services(), *AGENTS, RANK)
    found = [
        Fault(
            drawn.uniform(0, LATEST_SECONDS),
            drawn.choice(names),
            drawn.choices(HANGS, WEIGHTS)[0] if drawn.random() < 0.5 else 0.0,
        )
        for _ in range(drawn.randint(1, 3))
    ]
    return sorted(found, key=lambda fault: fault.after)


def overrides(seed: int) -> tuple[str, ...]:
    """A training that no other round has, over one of fifteen selections of pages."""
    return f"input.limit={5 + seed % 15}", f"train.steps={20 + seed}", f"train.ranks={1 + seed % 3}"


def pid_of(stack: Path, name: str) -> int:
    """The process that has this name now; 0 where none does."""
    if name == RANK:
        return next((each.pid for each in ranks(stack)), 0)
    return next((each["pid"] for each in processes(stack) if each["what"] == name), 0)


def cause(stack: Path, fault: Fault) -> None:
    """Carry a fault out to its end; of a process that hangs its children hang too."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid_of(stack, fault.name) or -1)
        if not fault.hangs:
            process.send_signal(signal.SIGKILL)
            return
        with hanging(process):
            threading.Event().wait(fault.hangs)


def whole(stack: Path) -> bool:
    """Every process of the stack runs, and every service answers."""
    kept = {each["what"]: each["pid"] for each in processes(stack) if each["restarts"] is not None}
    if not {*SERVERS, *installed_services(), *AGENTS} <= {name for name, pid in kept.items() if pid}:
        return False
    return tutti("status", "--data-dir", stack).code == 0


def test_runs_end_by_themselves_with_equal_states_whatever_dies_or_hangs(
    stack: Path, pages: Path, embedded: Callable[..., Any]
) -> None:
    for seed in range(min(ROUNDS, scale(test=0, soak=40))):
        drawn = faults(seed)
        print(f"round of seed {seed}: faults: {'; '.join(map(str, drawn))}")
        begun = tutti(*tiny(stack, pages, *overrides(seed), output=("--detach",)))
        assert begun.code == 0, begun.err
        timers = [threading.Timer(fault.after, cause, (stack, fault)) for fault in drawn]
        for timer in timers:
            timer.start()
        result = tutti("runs", "follow", begun.out.strip(), "--data-dir", stack, "-o", "json", seconds=600)
        for timer in timers:
            timer.join()
        assert result.code == 0, f"seed {seed}: {result.err}"
        assert checkpoints(result.json()) == checkpoints(embedded(*overrides(seed))), f"seed {seed}"
        until(lambda: whole(stack), seconds=HEALED_SECONDS, what=f"the whole stack after seed {seed}")
    ours = tutti("export", "--canonical", "--data-dir", stack)
    theirs = tutti("export", "--canonical", "--data-dir", embedded.data_dir)  # type: ignore[attr-defined]
    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    assert ours.out == theirs.out  # nothing that was acknowledged is lost, and no effect doubled


def steps_of(stack: Path) -> int:
    """Steps that ranks of any agent crossed since it began, as the agents tell."""
    found = 0
    for agent in AGENTS:
        address = (stack / "endpoints" / f"{agent}.metrics").read_text().strip()
        with urlopen(f"http://{address}/metrics", timeout=10) as answer:
            told = answer.read().decode()
        found += sum(
            int(float(each)) for each in re.findall(r"^step_time_seconds_count\{.*\} (\S+)$", told, re.MULTILINE)
        )
    return found


@pytest.mark.parametrize("server", SERVERS)
def test_training_goes_on_while_a_server_hangs_for_minutes(stack: Path, pages: Path, server: str) -> None:
    endless = ("train.steps=1000000", "train.checkpoint_every=2000", "train.ranks=1")
    begun = tutti(*tiny(stack, pages, f"input.limit={16 + SERVERS.index(server)}", *endless, output=("--detach",)))
    assert begun.code == 0, begun.err
    run = begun.out.strip()
    until(lambda: trains(stack, run, 10), seconds=300, what=f"the training of {run}")
    before = steps_of(stack)
    with hanging(psutil.Process(pid_of(stack, server))):
        threading.Event().wait(LONG_SECONDS)
        during = steps_of(stack) - before
    print(f"count of steps while {server} hung for {LONG_SECONDS:g} s: {during}")
    assert during > LONG_SECONDS
    until(
        lambda: trains(stack, run, during),
        seconds=HEALED_SECONDS,
        what="the steps that were crossed meanwhile",
    )
    shown = json.loads(tutti("runs", "show", run, "--data-dir", stack, "-o", "json").out)
    (train,) = [each for each in shown["stages"] if each["name"] == "train"]
    job = json.loads(tutti("jobs", "show", train["resource"], "--data-dir", stack, "-o", "json").out)
    assert job["epoch"] == 1  # its ranks were never started again
    assert tutti("runs", "cancel", run, "--data-dir", stack).code == 0
    until(lambda: not ranks(stack), seconds=HEALED_SECONDS, what="the end of its ranks")
