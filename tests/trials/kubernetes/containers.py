"""Containers of the stand-in for a kubelet: simulated ones, and those whose program runs as a process here.

Promises: a process is started in a session of its own and known by pid and start time; SIGKILL ends all processes that
it started too, as the end of a container does.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil
from processes import Process, save, start

PROBE_SECONDS = 10.0
LOOK_SECONDS = 1.0


class Container(Protocol):
    restarts: int

    def look(self) -> bool:
        """Start again what ended; return whether the container is ready."""
        ...

    def stop(self, grace: float) -> bool:
        """Tell it to stop, and kill it after `grace` seconds; return whether it has ended. Called again and again."""
        ...

    def kill(self) -> None: ...


class Simulated:
    """Ready as soon as it is started, and ended as soon as it is stopped: no program runs."""

    restarts = 0

    def look(self) -> bool:
        return True

    def stop(self, grace: float) -> bool:
        del grace
        return True

    def kill(self) -> None:
        pass


@dataclass
class Running:
    """A program that runs as a process. `record` is the file that names it, for a trial after one that was killed."""

    words: Sequence[str | Path]
    environment: Mapping[str, str]
    probe: Sequence[str]
    log: Path
    record: Path
    restarts: int = 0
    _process: Process | None = None
    _ready: bool = False
    _looked: float = 0.0
    _told: float = 0.0

    def look(self) -> bool:
        if self._process is None:
            self._begin()
        elif not self._process.is_alive():
            self.restarts += 1
            self._begin()
        elif time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._ready = self._probed()
        return self._ready

    def stop(self, grace: float) -> bool:
        if self._process is None or not self._process.is_alive():
            self._forget()
            return True
        if not self._told:
            self._told = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
        elif time.monotonic() - self._told > grace:
            self.kill()
        return False

    def kill(self) -> None:
        if self._process is not None and self._process.is_alive():
            _kill_family(self._process.pid)
        self._forget()

    def _begin(self) -> None:
        self._ready = False
        self._process = start(self.words, log=self.log, environment=self.environment)
        save(self.record, self._process)

    def _probed(self) -> bool:
        try:
            done = subprocess.run(
                list(self.probe),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_SECONDS,
                check=False,
                env=dict(self.environment),
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def _forget(self) -> None:
        self._process = None
        self.record.unlink(missing_ok=True)


def _kill_family(pid: int) -> None:
    """SIGKILL a process and all that it started; they are stopped before, so that none sees the end of another."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
        for act in (psutil.Process.suspend, psutil.Process.kill):
            for each in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    act(each)
        psutil.wait_procs(family, timeout=PROBE_SECONDS)
