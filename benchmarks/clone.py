"""A fresh clone of HEAD in a folder of its own, and commands in it: how long they take, what their processes hold.

Promises: nothing of this checkout is in it but what is committed; the folder is removed at the end, and a process that
a command left behind is an error.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.platforms import pss
from benchmarks.program import ROOT, WentWrong, scratch
from benchmarks.table import Row, at_most

SAMPLE_SECONDS = 1.0
LIMIT_SECONDS = 1800.0
LEAVE_SECONDS = 30.0
LAST_WORDS = 15


@dataclass(frozen=True)
class Done:
    """A command that ended with 0."""

    out: str
    err: str
    seconds: float
    peak_mib: float
    """The greatest sum of PSS of its processes, over samples a second apart."""

    def json(self) -> Any:
        """What it printed, read as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Clone:
    """A working tree at HEAD, with nothing built in it yet."""

    folder: Path
    commit: str

    def run(self, *command: str | Path) -> Done:
        """Run to the end. Raises WentWrong with the last words of a command that fails or leaves a process."""
        started = time.perf_counter()
        process = subprocess.Popen(
            [*map(str, command)],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        words = " ".join(map(str, command))
        try:
            with _watched(process.pid) as watch:
                out, err = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate()
        seconds = time.perf_counter() - started
        if process.returncode != 0:
            last = "\n".join((out + err).strip().splitlines()[-LAST_WORDS:])
            raise WentWrong(f"{words}: exit code {process.returncode}\n{last}")
        if left := watch.left():
            raise WentWrong(f"{words} has ended, processes that it started have not: {left}")
        return Done(out, err, seconds, watch.peak_mib)

    def python(self, *arguments: str | Path) -> Done:
        """Run the clone's own interpreter."""
        return self.run(".venv/bin/python", *arguments)

    def tutti(self, *arguments: str | Path) -> Done:
        """Run the clone's own `tutti`."""
        return self.run(".venv/bin/tutti", *arguments)


@contextlib.contextmanager
def clone() -> Iterator[Clone]:
    """A clone that lives as long as the block, on the disk of this checkout."""
    with scratch("clone") as folder:
        home = Path(folder) / "tutti"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(home)], check=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=home, capture_output=True, text=True, check=True)
        yield Clone(home, commit.stdout.strip())


def checkpoints(summary: Any) -> dict[int, str]:
    """The state digest of each checkpoint in the JSON of a run, by step."""
    return {each["step"]: each["state_digest"] for each in summary["checkpoints"]}


def stages_run(summary: Any) -> list[str]:
    """The stages in the JSON of a run that were not reused, in order."""
    return [stage["name"] for stage in summary["run"]["stages"] if not stage["reused"]]


@dataclass(frozen=True)
class Goals:
    """The most that a command of the README may take; `mib` is None where its memory has no goal."""

    seconds: float
    again_seconds: float
    mib: float | None = None


def measured(command: str, goals: Goals, setup: Done, first: Done, again: Done) -> list[Row]:
    """Rows of a command of the README that was run twice in a fresh clone."""
    return [
        Row(
            what=f"{command} in a fresh clone",
            unit="s",
            ours=first.seconds,
            goal=at_most(goals.seconds),
            note=f"make setup before it took {setup.seconds:.0f} s from the package cache",
        ),
        Row(
            what=f"{command} again",
            unit="s",
            ours=again.seconds,
            goal=at_most(goals.again_seconds),
            note="every stage is reused",
        ),
        Row(
            what=f"memory of {command}, the most",
            unit="MiB",
            ours=max(first.peak_mib, again.peak_mib),
            goal=None if goals.mib is None else at_most(goals.mib),
            note="sum of PSS over all its processes, in samples a second apart",
        ),
    ]


class _Watch(threading.Thread):
    """Adds up, again and again, what a process and all below it hold."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="memory", daemon=True)
        self._root = psutil.Process(pid)
        self._ended = threading.Event()
        self._seen: set[psutil.Process] = set()
        self.peak_mib = 0.0

    def run(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            while not self._ended.wait(SAMPLE_SECONDS):
                family = [self._root, *self._root.children(recursive=True)]
                self._seen.update(family)
                self.peak_mib = max(self.peak_mib, sum(map(pss, family)))

    def end(self) -> None:
        self._ended.set()
        self.join()

    def left(self) -> list[psutil.Process]:
        """Those that still run some time after the command has ended."""
        _, alive = psutil.wait_procs(self._seen, timeout=LEAVE_SECONDS)
        return list(alive)


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[_Watch]:
    watch = _Watch(pid)
    watch.start()
    try:
        yield watch
    finally:
        watch.end()


def _environment() -> dict[str, str]:
    """Ours without what would point at this checkout or at another platform."""
    strange = ("TUTTI_", "VIRTUAL_ENV", "PYTHONPATH", "MAKE", "MFLAGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    ours = str(ROOT / ".venv" / "bin")
    return {**kept, "PATH": os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if part != ours)}
