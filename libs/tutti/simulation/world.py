"""The world of a simulation: what outlives its processes, and the rules at its ports.

Promises: databases, log, blobs and clocks stay when a process crashes; it can crash, and others can run, at every call
of a port; a call, a blob or a publish inside a transaction is an error.
"""

import os
import tempfile
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from tutti.backbone import ManualClock
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.backbone.files import Files, Handle, RealFiles, RealHandle
from tutti.simulation.faults import Aborts, Fate, Fault

MAX_POLL_SECONDS = 10.0
MAX_DEPTH = 2
STALL_TURNS, STALL_SECONDS = 60, 60.0


class Crashed(BaseException):
    """Unwinds a process that is no more; not an Exception, so that nobody handles it."""


class RuleBroken(AssertionError):
    """A service did what no service may do."""


class SimulatedClock(ManualClock):
    """Monotonic time goes on; wall time can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.skew = timedelta()

    def now(self) -> datetime:
        return super().now() + self.skew


@dataclass(eq=False)
class Process:
    """One life of a service or an agent."""

    name: str
    life: int
    alive: bool = True
    mortal: bool = True
    stalled: bool = False

    @property
    def holder(self) -> str:
        return f"{self.name}#{self.life}"


@dataclass
class World:
    fate: Fate
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    databases: dict[str, EmbeddedDatabase] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    transactions: int = 0
    depth: int = 0
    others_run: Callable[[str | None], None] = lambda service: None
    kill: Callable[[Process], None] = lambda process: None
    appended: Callable[[Set[str]], None] = lambda topics: None

    def __post_init__(self) -> None:
        self.log = EmbeddedEventLog(None, clock=self.clock, inline=True, max_poll_seconds=MAX_POLL_SECONDS)
        self.files: Files = UnsyncedFiles()
        self.blobs = EmbeddedBlobs(Path(self.folder.name) / "blobs", files=self.files)

    def database(self, service: str) -> EmbeddedDatabase:
        found = self.databases.get(service)
        if found is None:
            found = self.databases[service] = EmbeddedDatabase(
                None, clock=self.clock, inline=True, failures=Aborts(self.fate), failure_probability=0.5
            )
        return found

    def enter(self, process: Process, port: str) -> None:
        """A process calls a port, outside any transaction. Raises Crashed, RuleBroken."""
        if not process.alive:
            raise Crashed(process.name)
        if self.transactions:
            raise RuleBroken(f"{process.name} called {port} inside a transaction: commit first, then call")
        self.perhaps_crash(process)
        self.perhaps_stall(process, Fault.STALLED)
        if self.depth < MAX_DEPTH and self.fate.strikes(Fault.INTERLEAVED):
            self.depth += 1
            try:
                for _ in range(self.fate.count(1, 6)):
                    self.others_run(None)
            finally:
                self.depth -= 1
            if not process.alive:
                raise Crashed(process.name)

    def perhaps_stall(self, process: Process, fault: Fault) -> None:
        """The other lives of this service go on until the leases of this one have lapsed. Raises Crashed."""
        if not process.mortal or self.depth or not self.fate.strikes(fault):
            return
        process.stalled, self.depth = True, self.depth + 1
        try:
            for turn in range(STALL_TURNS):
                if turn % 10 == 0:
                    self.clock.advance(STALL_SECONDS / STALL_TURNS * 10)
                self.others_run(process.name)
        finally:
            process.stalled, self.depth = False, self.depth - 1
        if not process.alive:
            raise Crashed(process.name)

    def perhaps_crash(self, process: Process) -> None:
        if not process.alive:  # nobody dies twice: two would come back
            raise Crashed(process.name)
        if process.mortal and self.fate.strikes(Fault.CRASHED):
            self.kill(process)
            raise Crashed(process.name)

    def close(self) -> None:
        for database in self.databases.values():
            database.close()
        self.log.close()
        self.blobs.close()
        self.folder.cleanup()


class _UnsyncedHandle(RealHandle):
    def fsync(self) -> None:
        return None


class UnsyncedFiles(RealFiles):
    """Real files that are not synced: no machine loses power in a simulation (LosingFiles does that elsewhere)."""

    def create(self, path: Path) -> RealHandle:
        return _UnsyncedHandle(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))

    def fsync_folder(self, path: Path) -> None:
        return None


class SimulatedFiles(UnsyncedFiles):
    """The disk of one process, which may crash before each change that it makes."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    def create(self, path: Path) -> RealHandle:
        self._world.perhaps_crash(self._process)
        return super().create(path)

    def append(self, path: Path) -> Handle:
        self._world.perhaps_crash(self._process)
        return super().append(path)

    def link(self, source: Path, target: Path) -> None:
        self._world.perhaps_crash(self._process)
        super().link(source, target)

    def replace(self, source: Path, target: Path) -> None:
        self._world.perhaps_crash(self._process)
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self._world.perhaps_crash(self._process)
        super().unlink(path)
