"""The spool: snapshots on the local disk that are not in the blob store yet.

An entry is whole and durable or not there: its report is published last. A stored one leaves a receipt, so that the
news of it can be told again by the next I/O child; receipts go when their attempt is given up.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone.files import Files, make_folders, publish
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import REPORTS, ShardName
from tutti.checkpoints.report import ShardReport

_DATA, _REPORT, _RECEIPT = ".bin", ".json", ".stored"
_WRITE = 8 << 20
RECEIPTS = 256


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

    def __init__(self, folder: Path, files: Files, *, limit: int) -> None:
        """Removes what a dead process left half-written."""
        self._folder, self._files, self._limit = folder, files, limit
        make_folders(files, folder)
        names = {name for name, _ in files.list(folder)}
        for name in sorted(names):
            torn = name.endswith(_DATA) and name.removesuffix(_DATA) + _REPORT not in names
            if torn or name.endswith(".tmp"):
                files.unlink(folder / name)
        files.fsync_folder(folder)

    def has_room_for(self, name: ShardName) -> bool:
        held = {_group(entry) for entry in self._names(_REPORT)}
        return _group(name) in held or len(held) < self._limit

    def holds(self, name: ShardName) -> bool:
        """Whether it was put, stored or not."""
        return self._path(name, _REPORT).exists() or self._path(name, _RECEIPT).exists()

    def put(self, report: ShardReport, data: memoryview) -> Entry:
        """Durable on return. Raises OSError; what was written by then is removed by the next try."""
        target = self._path(report.name, _DATA)
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(target)
        with self._files.create(target) as handle:
            for start in range(0, data.nbytes, _WRITE):
                handle.write(data[start : start + _WRITE])
            handle.fsync()
        temporary = self._path(report.name, ".tmp")
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(temporary)
        with contextlib.suppress(FileExistsError):
            publish(self._files, temporary, self._path(report.name, _REPORT), [report.encode()])
        return Entry(report, target)

    def waiting(self) -> list[Entry]:
        """What is to be stored, the oldest step first."""
        names = sorted(self._names(_REPORT), key=lambda name: (name.step, name))
        return [Entry(self._report(name, _REPORT), self._path(name, _DATA)) for name in names]

    def receipts(self) -> list[ShardReport]:
        """What was stored, in the order of steps."""
        names = sorted(self._names(_RECEIPT), key=lambda name: (name.step, name))
        return [self._report(name, _RECEIPT) for name in names]

    def stored(self, name: ShardName) -> None:
        """Keep the receipt, drop the bytes."""
        self._files.replace(self._path(name, _REPORT), self._path(name, _RECEIPT))
        self._files.fsync_folder(self._folder)
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(self._path(name, _DATA))
        for old in sorted(self._names(_RECEIPT), key=lambda each: (each.step, each))[:-RECEIPTS]:
            self._files.unlink(self._path(old, _RECEIPT))

    def forget(self, job: str, epoch: int) -> None:
        """Drop the receipts of an attempt."""
        for name in list(self._names(_RECEIPT)):
            if (name.job, name.epoch) == (job, epoch):
                self._files.unlink(self._path(name, _RECEIPT))

    def _names(self, suffix: str) -> Iterator[ShardName]:
        for name, _ in self._files.list(self._folder):
            if name.endswith(suffix):
                with contextlib.suppress(CheckpointError):
                    yield ShardName.of_report(f"{REPORTS}{name.removesuffix(suffix)}.json")

    def _report(self, name: ShardName, suffix: str) -> ShardReport:
        return ShardReport.decode(self._files.read(self._path(name, suffix)))

    def _path(self, name: ShardName, suffix: str) -> Path:
        return self._folder / f"{name}{suffix}"


def _group(name: ShardName) -> tuple[str, int, int, int]:
    return name.job, name.line, name.step, name.epoch
