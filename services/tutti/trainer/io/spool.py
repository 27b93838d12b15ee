"""The spool: snapshots on the local disk that are not in the blob store yet.

An entry is whole and durable or not there: its report is published last. A stored one leaves a receipt, so that the
news of it can be told again by the next I/O child. What cannot be used is set aside as `.damaged`, in words, and holds
up nothing. Receipts go when their attempt is given up; what was set aside then too, or when a later one of the job is.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tutti.backbone.files import Files, make_folders, overwrite, publish
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import REPORTS, ShardName
from tutti.checkpoints.report import ShardReport

log = logging.getLogger(__name__)

_DATA, _REPORT, _RECEIPT, _DAMAGED = ".bin", ".json", ".stored", ".damaged"
_WRITE = 8 << 20
_ASIDE = (_REPORT + _DAMAGED, _RECEIPT + _DAMAGED)
KEPT = 256
"""Receipts, and what was set aside of each kind, when nobody gives their attempts up."""


@dataclass(frozen=True)
class Entry:
    """A snapshot whose bytes lie at `data`."""

    report: ShardReport
    data: Path

    @property
    def name(self) -> ShardName:
        return self.report.name


class Spool:
    """At most `limit` snapshots; those of all ranks of a node in one step and epoch count as one."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        *,
        limit: int,
        trouble: Callable[[str], None] = log.warning,
        lost: Callable[[ShardName, str], None] = lambda name, why: None,
    ) -> None:
        """Removes what a dead process left half-written.

        `trouble` is told of all that is set aside, `lost` of the snapshots whose bytes went with it.
        """
        self._folder, self._files, self._limit, self._trouble, self._lost = folder, files, limit, trouble, lost
        make_folders(files, folder)
        names = {name for name, _ in files.list(folder)}
        for name in sorted(names):
            torn = name.endswith(_DATA) and name.removesuffix(_DATA) + _REPORT not in names
            if torn or name.endswith(".tmp"):
                files.unlink(folder / name)
        for waiting in list(self._names(_REPORT)):
            with contextlib.suppress(CheckpointError):
                self._address(waiting)
        files.fsync_folder(folder)

    def has_room_for(self, name: ShardName) -> bool:
        held = {_group(entry) for entry in self._names(_REPORT)}
        return _group(name) in held or len(held) < self._limit

    def holds(self, name: ShardName) -> bool:
        """True if it was put, stored or not."""
        return self._path(name, _REPORT).exists() or self._path(name, _RECEIPT).exists()

    def put(self, report: ShardReport, data: memoryview) -> Entry:
        """Durable on return. Raises OSError; what was written by then is removed by the next try."""
        target = self._path(report.name, _DATA)
        self._remove(target)
        with self._files.create(target) as handle:
            for start in range(0, data.nbytes, _WRITE):
                handle.write(data[start : start + _WRITE])
            handle.fsync()
        self._files.fsync_folder(self._folder)  # the name of the bytes before that of their report
        temporary = self._path(report.name, ".tmp")
        self._remove(temporary)
        with contextlib.suppress(FileExistsError):
            publish(self._files, temporary, self._path(report.name, _REPORT), [report.encode()])
        return Entry(report, target)

    def waiting(self) -> list[Entry]:
        """The entries to store, the oldest step first."""
        found = []
        for name in sorted(self._names(_REPORT), key=lambda name: (name.step, name)):
            report = self._report(name, _REPORT)
            if report is not None:
                found.append(Entry(report, self._path(name, _DATA)))
        return found

    def receipts(self) -> list[ShardReport]:
        """The reports of stored shards, in the order of steps."""
        names = sorted(self._names(_RECEIPT), key=lambda name: (name.step, name))
        return [report for name in names if (report := self._report(name, _RECEIPT)) is not None]

    def lost(self) -> list[ShardName]:
        """The shards that were set aside before they were stored, and not put again, in the order of steps."""
        aside = {name for name in self._names(_REPORT + _DAMAGED) if not self.holds(name)}
        return sorted(aside, key=lambda name: (name.step, name))

    def set_aside(self, name: ShardName, why: str) -> None:
        """Give up a waiting entry: its report stays as evidence, its bytes go, so that the disk does not fill up."""
        self._set_aside(name, _REPORT, why)

    def stored(self, name: ShardName) -> None:
        """Keep the receipt, drop the bytes. Raises OSError; a second call goes on where the first one failed."""
        with contextlib.suppress(FileNotFoundError):
            self._files.replace(self._path(name, _REPORT), self._path(name, _RECEIPT))
        self._files.fsync_folder(self._folder)
        self._keep_newest(_RECEIPT)
        self._remove(self._path(name, _DATA))

    def forget(self, job: str, epoch: int) -> None:
        """Drop the receipts of an attempt, and what was set aside of it and of those before it."""
        for name in list(self._names(_RECEIPT)):
            if (name.job, name.epoch) == (job, epoch):
                self._remove(self._path(name, _RECEIPT))
        for suffix in _ASIDE:
            for name in list(self._names(suffix)):
                if name.job == job and name.epoch <= epoch:
                    self._remove(self._path(name, suffix))

    def _address(self, name: ShardName) -> None:
        """Give a snapshot that an earlier version spooled the keys that its node may write. Raises CheckpointError."""
        path = self._path(name, _REPORT)
        report = ShardReport.decode(self._files.read(path))
        if not report.name.node:
            report = replace(report, name=report.name.stored_by(report.node))
            overwrite(self._files, self._path(name, ".tmp"), path, [report.encode()])

    def _names(self, suffix: str) -> Iterator[ShardName]:
        for name, _ in self._files.list(self._folder):
            if name.endswith(suffix):
                with contextlib.suppress(CheckpointError):
                    yield ShardName.of_report(f"{REPORTS}{name.removesuffix(suffix)}.json")

    def _keep_newest(self, suffix: str) -> None:
        for old in sorted(self._names(suffix), key=lambda each: (each.step, each))[:-KEPT]:
            self._remove(self._path(old, suffix))

    def _remove(self, path: Path) -> None:
        """If it is there: a dead process, or another lane, may have come before."""
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(path)

    def _report(self, name: ShardName, suffix: str) -> ShardReport | None:
        """The report under this name; None when it was damaged, which sets it aside."""
        try:
            report = ShardReport.decode(self._files.read(self._path(name, suffix)))
            if report.name != name:
                raise CheckpointError(f"a report of {report.name}, expected {name}")
            if suffix == _REPORT:
                self._require_data(report)
        except CheckpointError as error:
            self._set_aside(name, suffix, str(error))
            return None
        return report

    def _require_data(self, report: ShardReport) -> None:
        path = self._path(report.name, _DATA)
        try:
            size = self._files.size(path)
        except FileNotFoundError as error:
            raise CheckpointError(f"{path.name} is gone, expected {report.nbytes} bytes") from error
        if size != report.nbytes:
            raise CheckpointError(f"{path.name} has {size} bytes, expected {report.nbytes}")

    def _set_aside(self, name: ShardName, suffix: str, why: str) -> None:
        path = self._path(name, suffix)
        aside = path.with_name(path.name + _DAMAGED)
        self._files.replace(path, aside)
        self._trouble(f"{path} was set aside as {aside.name}, the others go on: {why}")
        if suffix == _REPORT:
            self._lost(name, why)
        self._files.fsync_folder(self._folder)
        if suffix == _REPORT:
            self._remove(self._path(name, _DATA))
        self._keep_newest(suffix + _DAMAGED)

    def _path(self, name: ShardName, suffix: str) -> Path:
        return self._folder / f"{name}{suffix}"


def _group(name: ShardName) -> tuple[str, int, int, int]:
    return name.job, name.line, name.step, name.epoch
