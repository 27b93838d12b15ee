"""What writes durably, as scenarios for a disk that loses what was not synced: each knows what it was promised."""

from pathlib import Path
from typing import Protocol

from tutti.backbone.blobs import BlobMissing
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import Files, RealFiles, make_folders
from tutti.backbone.recording import Operation, RecordingFiles
from tutti.chassis.config.datadir import FOLDERS, DataDir, DataDirError
from tutti.checkpoints import example_test as example
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.writer import describe
from tutti.model.plan import Shape
from tutti.platform.processes import ProcessId
from tutti.trainer.agent.journal import Journal
from tutti.trainer.io.spool import Spool

BLOBS = {
    "second/kind/gone": b"gone",
    "owner/kind/a": b"a" * 100,
    "owner/kind/b": b"b" * (3 << 20),  # in several writes
    "owner/other/c": b"c" * 10,
    "second/kind/d": b"d",
}
TRAINING, ALONE = example.training(), Shape(1)


class Scenario(Protocol):
    """One life of a program on a disk, and what it may rely on afterwards."""

    def prepare(self, files: Files, disk: Path) -> None:
        """What was there before."""
        ...

    def run(self, files: Files, disk: Path) -> None:
        """Live; what returned is promised."""
        ...

    def broken(self, disk: Path) -> list[str]:
        """What of the promises does not hold for the program that starts next."""
        ...


class New:
    """A scenario that finds nothing."""

    def prepare(self, files: Files, disk: Path) -> None:
        """Nothing was there before."""


def dying(files: Files) -> Files:
    """The files of a process that died before it had synced any folder, but between one file and the next."""

    def skipped(operation: Operation) -> bool:
        return operation.kind == "fsync_folder" and recording.operations[operation.number - 1].kind != "fsync"

    recording = RecordingFiles(files, skipped=skipped)
    return recording


class StoreBlobs(New):
    """Put, delete and fetch on a new store."""

    def __init__(self) -> None:
        self.present, self.absent, self.fetched = set[str](), set[str](), False

    def run(self, files: Files, disk: Path) -> None:
        blobs = EmbeddedBlobs(disk / "deep" / "store", files=files)
        for key, data in BLOBS.items():
            blobs.put_if_absent(key, data)
            self.present.add(key)
        self.present.remove("second/kind/gone")
        blobs.delete("second/kind/gone")
        self.absent.add("second/kind/gone")
        blobs.fetch("owner/kind/b", disk / "local" / "copy")
        self.fetched = True

    def broken(self, disk: Path) -> list[str]:
        blobs, found = EmbeddedBlobs(disk / "deep" / "store"), list[str]()
        try:
            for stat in blobs.list(""):
                if blobs.get(stat.key) != BLOBS[stat.key]:
                    found.append(f"{stat.key} is not whole")
                if stat.key in self.absent:
                    found.append(f"{stat.key} came back")
            for key in self.present:
                try:
                    blobs.get(key)
                except BlobMissing:
                    found.append(f"{key} is lost")
        finally:
            blobs.close()
        copy = disk / "local" / "copy"
        if copy.exists() and copy.read_bytes() != BLOBS["owner/kind/b"]:
            found.append("the copy is not whole")
        if self.fetched and not copy.exists():
            found.append("the copy is lost")
        staged = [path.name for path in (disk / "deep" / "store" / ".staging").iterdir()]
        return found if len(staged) <= 1 else [*found, f"left in .staging: {staged}"]


class ConfirmBlobs(StoreBlobs):
    """Put what another process has linked."""

    def prepare(self, files: Files, disk: Path) -> None:
        make_folders(files, disk / "deep")
        EmbeddedBlobs(disk / "deep" / "store", files=dying(files)).put_if_absent("owner/kind/a", BLOBS["owner/kind/a"])

    def run(self, files: Files, disk: Path) -> None:
        EmbeddedBlobs(disk / "deep" / "store", files=files).put_if_absent("owner/kind/a", BLOBS["owner/kind/a"])
        self.present.add("owner/kind/a")


class OpenDirectory(New):
    """A data directory: opened, its tokens and a name made, a service announced, a file written for others."""

    def __init__(self) -> None:
        self.opened, self.kept = False, dict[str, str]()

    def run(self, files: Files, disk: Path) -> None:
        directory = DataDir(disk / "deep" / "data", files=files)
        self.opened = True
        self.kept["tokens"] = directory.tokens().text()
        self.kept["scheduler.instance"] = directory.instance("scheduler")
        directory.announce("127.0.0.1:1")
        self.kept["endpoint"] = "127.0.0.1:1"
        directory.write("processes.json", b"{}")
        self.kept["processes.json"] = "{}"

    def broken(self, disk: Path) -> list[str]:
        path = disk / "deep" / "data"
        found = [f"the folder {name} is lost" for name in FOLDERS if self.opened and not (path / name).is_dir()]
        if (path / "tokens").exists():
            (path / "tokens").chmod(0o600)  # the disk of these tests keeps no modes
        try:
            DataDir(path).tokens()
        except DataDirError as error:
            return [*found, str(error)]
        for name, text in self.kept.items():
            if not (path / name).exists():
                found.append(f"{name} is lost")
            elif (path / name).read_text().strip() != text.strip():
                found.append(f"{name} is another")
        return found


class ConfirmDirectory(OpenDirectory):
    """A data directory that another process has made."""

    def prepare(self, files: Files, disk: Path) -> None:
        make_folders(files, disk / "deep")
        DataDir(disk / "deep" / "data", files=dying(files)).tokens()

    def run(self, files: Files, disk: Path) -> None:
        directory = DataDir(disk / "deep" / "data", files=files)
        self.opened = True
        self.kept["tokens"] = directory.tokens().text()


class KeepJournal(New):
    """A journal: attempts begin, processes are recorded."""

    def __init__(self) -> None:
        self.begun, self.processes = set[tuple[str, int]](), tuple[ProcessId, ...]()

    def run(self, files: Files, disk: Path) -> None:
        make_folders(files, disk / "agent")
        journal = Journal(disk / "agent" / "journal", files)
        for epoch in (1, 2):
            journal.begin("jobs/x", epoch)
            self.begun.add(("jobs/x", epoch))
        journal.processes([ProcessId(1, 1)])
        self.processes = (ProcessId(1, 1),)

    def broken(self, disk: Path) -> list[str]:
        record = Journal(disk / "agent" / "journal", RealFiles()).record
        found = [f"{each} can begin again" for each in self.begun - set(record.begun)]
        return found if set(self.processes) <= set(record.processes) else [*found, "a process is forgotten"]


class FillSpool(New):
    """A spool: snapshots are put, one is stored, one is set aside."""

    def __init__(self) -> None:
        self.put, self.stored, self.aside = set[ShardName](), set[ShardName](), set[ShardName]()

    def run(self, files: Files, disk: Path) -> None:
        spool = Spool(disk / "state" / "spool", files, limit=4)
        for step in (5, 10, 15):
            put(spool, step)
            self.put.add(named(step))
        spool.stored(named(5))
        self.stored.add(named(5))
        self.put.remove(named(10))
        spool.set_aside(named(10), "it was stored with other bytes")
        self.aside.add(named(10))

    def broken(self, disk: Path) -> list[str]:
        found = list[str]()
        spool = Spool(disk / "state" / "spool", RealFiles(), limit=4, trouble=found.append)
        waiting = {entry.name: entry.data.read_bytes() for entry in spool.waiting()}
        receipts = {report.name for report in spool.receipts()}
        found += [f"{name} is not whole" for name, data in waiting.items() if data != content(name.step)]
        found += [f"{name} is lost" for name in self.put - waiting.keys() - receipts]
        found += [f"the receipt of {name} is lost" for name in self.stored - receipts]
        return found + [f"{name} was given up and waits again" for name in self.aside - set(spool.lost())]


class ConfirmSpool(FillSpool):
    """A spool that holds what another process has put."""

    def prepare(self, files: Files, disk: Path) -> None:
        make_folders(files, disk / "state")
        put(Spool(disk / "state" / "spool", dying(files), limit=4), 5)

    def run(self, files: Files, disk: Path) -> None:
        if Spool(disk / "state" / "spool", files, limit=4).holds(named(5)):
            self.put.add(named(5))


def named(step: int) -> ShardName:
    return ShardName("x", 0, step, 1, 0, "a")


def content(step: int) -> bytes:
    return bytes(example.buffer(TRAINING, ALONE, 0, step))


def put(spool: Spool, step: int) -> None:
    data = memoryview(content(step))
    spool.put(describe(data, example.snapshot(TRAINING, ALONE, named(step))), data)


SCENARIOS: list[type[Scenario]] = [
    StoreBlobs,
    ConfirmBlobs,
    OpenDirectory,
    ConfirmDirectory,
    KeepJournal,
    FillSpool,
    ConfirmSpool,
]
