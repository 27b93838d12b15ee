"""The preflight: what a process assumes of its machine and its stores, each seen by trying it.

Promises: nothing is left behind; a trial ends in time, also where a store hangs; one that fails says what to do.
"""

import math
import resource
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from tutti.backbone import Blobs, Database, Isolation
from tutti.backbone.blobs import BlobExists
from tutti.backbone.files import Files, Handle, RealFiles
from tutti.chassis.runtime import sharedmemory
from tutti.chassis.runtime.dependencies import DependencyChecks
from tutti.chassis.runtime.probe import answer
from tutti.chassis.service import Finding

FILES = 1024
SKEW_SECONDS = 5.0
SLOW_SECONDS = 0.25
JITTER_SECONDS = 0.5
TRIES, ROUNDS = 5, 10
ENOUGH_SECONDS = 2.0
"""A store that takes longer for its rounds is judged by those that it had: a trial ends before its reader gives up."""
RENEWAL_DAYS = 14
NAME = "preflight"


class Unfit(Exception):
    """An assumption does not hold; the message says which, and what to do."""


@dataclass(frozen=True)
class Pace:
    """Seconds that a small round trip takes: the median, and the most of nine in ten."""

    middle: float
    late: float

    def __str__(self) -> str:
        return f"{self.middle * 1000:.1f} ms, nine times in ten at most {self.late * 1000:.1f} ms"

    def check(self, store: str) -> None:
        """Raise Unfit where a store is far away, or where its answers come irregularly."""
        if self.middle > SLOW_SECONDS:
            raise Unfit(
                f"{store} takes {self.middle * 1000:.0f} ms to answer, expected at most {SLOW_SECONDS * 1000:.0f} ms: "
                f"move it nearer"
            )
        if self.late - self.middle > JITTER_SECONDS:
            raise Unfit(
                f"{store} answers in {self.middle * 1000:.0f} ms, and two times in ten in {self.late * 1000:.0f} ms or "
                f"more, expected at most {JITTER_SECONDS * 1000:.0f} ms of jitter: look for a lossy network, a busy "
                f"disk, swapping, or a container at its CPU limit; leases and deadlines can be lost"
            )


class Preflight:
    """The checks of one process, with a folder where it writes and the stores that it uses; databases by service."""

    def __init__(
        self,
        folder: Path,
        blobs: Blobs,
        databases: Mapping[str, Database],
        *,
        files: Files | None = None,
        now: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        looks: DependencyChecks | None = None,
        ask_log: Callable[[], object] = lambda: None,
        expiries: Callable[[], Sequence[tuple[str, datetime]]] = tuple,
    ) -> None:
        """`ask_log` lets the event log answer; `elapsed` are seconds that never go back; `expiries` returns the files
        of certificates, each with the moment at which it expires.
        """
        self._folder, self._blobs, self._databases = folder, blobs, dict(databases)
        self._files, self._now, self._looks = files or RealFiles(), now, looks or DependencyChecks()
        self._ask_log, self._elapsed, self._expiries = ask_log, elapsed, expiries

    def findings(self) -> list[Finding]:
        """One finding where all is well; else one for each assumption that does not hold."""
        trials: dict[str, Callable[[], str]] = {
            "files": self._durable_files,
            "blobs": self._conditional_put,
            "clock": self._clock,
            "databases": self._databases_pace,
            "event log": self._log_pace,
            "shared memory": self._shared_memory,
            "limits": self._limits,
            "certificates": self._certificates,
        }
        said: dict[str, str] = {}

        def trial(name: str) -> None:
            said[name] = trials[name]()

        with ThreadPoolExecutor(len(trials)) as pool:
            reasons = list(pool.map(lambda name: self._looks.at(name, partial(trial, name)), trials))
        if wrong := [reason for reason in reasons if reason]:
            return [Finding(NAME, False, reason) for reason in wrong]
        return [Finding(NAME, True, "; ".join(said[name] for name in trials))]

    def _durable_files(self) -> str:
        """A link never overwrites, a rename does, and what is synced is as fast as a transaction may wait."""
        first, second = (self._folder / f".{NAME}-{uuid.uuid4().hex}" for _ in range(2))
        try:
            for path in (first, second):
                with self._files.create(path) as handle:
                    handle.write(path.name.encode())
                    seconds = min(self._timed(handle.fsync), *(self._synced(handle, path) for _ in range(TRIES)))
            if self._files.read(second) != second.name.encode() * (TRIES + 1):
                raise Unfit(f"{self._folder} gave other bytes back than it was given: examine its disk")
            with suppress(FileExistsError):
                self._files.link(first, second)
                raise Unfit(f"link replaced a file in {self._folder}: use a local file system such as ext4 or xfs")
            self._files.replace(first, second)
            if not self._files.read(second).startswith(first.name.encode()):
                raise Unfit(f"rename did not replace a file in {self._folder}: use a local file system")
            self._files.fsync_folder(self._folder)
        except OSError as error:
            raise Unfit(
                f"{self._folder}: {error.strerror or error}; use a local file system that we may write"
            ) from None
        finally:
            for path in (first, second):
                with suppress(OSError):
                    self._files.unlink(path)
        if seconds > SLOW_SECONDS:
            raise Unfit(
                f"{self._folder}: a file took {seconds * 1000:.0f} ms to become durable, expected at most "
                f"{SLOW_SECONDS * 1000:.0f} ms: every transaction waits as long"
            )
        return f"link, rename and fsync work ({seconds * 1000:.1f} ms)"

    def _conditional_put(self) -> str:
        key = f"stack/{NAME}/{uuid.uuid4().hex}"
        pace = self._pace(lambda: list(self._blobs.list(key)))
        pace.check("the blob store")  # a slow one would not end the rest in time
        seconds = self._timed(lambda: self._blobs.put_if_absent(key, b"first"))
        try:
            with suppress(BlobExists):
                self._blobs.put_if_absent(key, b"second")
                raise Unfit("the store replaced a blob: use an S3 server that honours If-None-Match on PUT")
            if self._blobs.get(key) != b"first":
                raise Unfit("the store gave other bytes back than it was given: examine its disks")
        finally:
            self._blobs.delete(key)
        return f"blobs are written once ({seconds * 1000:.0f} ms) and listed in {pace}"

    def _clock(self) -> str:
        """The clock of each database is between ours before and after the question."""

        def apart_of(service: str, database: Database) -> float:
            before = self._now()
            theirs = database.run(lambda tx: tx.now(), isolation=Isolation.READ_COMMITTED).timestamp()
            apart = max(before - theirs, theirs - self._now(), 0.0)
            if apart > SKEW_SECONDS:
                ahead = "behind" if theirs > before else "ahead of"
                raise Unfit(
                    f"this machine's clock is {apart:.0f} s {ahead} that of the database of {service}, expected at "
                    f"most {SKEW_SECONDS:.0f} s: let both follow a time server"
                )
            return apart

        with ThreadPoolExecutor(max(1, len(self._databases))) as pool:
            worst = max(pool.map(apart_of, self._databases, self._databases.values()), default=0.0)
        return f"clocks are at most {worst:.1f} s apart"

    def _databases_pace(self) -> str:
        """The slowest database."""
        slowest = Pace(0.0, 0.0)
        for service, database in self._databases.items():
            pace = self._pace(partial(answer, database))
            pace.check(f"the database of {service}")
            slowest = max(slowest, pace, key=lambda each: each.middle)
        return f"databases answer in {slowest}"

    def _log_pace(self) -> str:
        pace = self._pace(self._ask_log)
        pace.check("the event log")
        return f"the event log answers in {pace}"

    def _shared_memory(self) -> str:
        try:
            return sharedmemory.tried()
        except sharedmemory.Lacking as lacking:
            raise Unfit(str(lacking)) from None

    def _pace(self, ask: Callable[[], object]) -> Pace:
        """Ask once to connect, and then ROUNDS times, or for ENOUGH_SECONDS."""
        ask()
        seconds: list[float] = []
        while len(seconds) < ROUNDS and sum(seconds) < ENOUGH_SECONDS:
            seconds.append(self._timed(ask))
        seconds.sort()
        return Pace(seconds[len(seconds) // 2], seconds[max(len(seconds) - 2, 0)])

    def _synced(self, handle: Handle, path: Path) -> float:
        handle.write(path.name.encode())
        return self._timed(handle.fsync)

    def _timed(self, work: Callable[[], object]) -> float:
        began = self._elapsed()
        work()
        return self._elapsed() - began

    def _limits(self) -> str:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = math.inf if soft == resource.RLIM_INFINITY else soft
        if most < FILES:
            raise Unfit(f"this process may open {soft} files, expected at least {FILES}: raise `ulimit -n`")
        return f"{most:,.0f} files may be open" if most < math.inf else "any number of files may be open"

    def _certificates(self) -> str:
        files = self._expiries()
        for file, until in files:
            days = (until.timestamp() - self._now()) / 86_400
            if days < RENEWAL_DAYS:
                raise Unfit(
                    f"{file} expires at {until:%Y-%m-%d %H:%M} UTC, in {days:.0f} days: replace it; nothing has to be "
                    f"restarted"
                )
        if not files:
            return "no certificates"
        return f"certificates hold until {min(until for _, until in files):%Y-%m-%d}"
