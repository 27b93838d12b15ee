"""Blobs in files on a disk that loses what was not synced: every operation is a crash point, every fsync is needed."""

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tutti.backbone.blobs import BlobMissing, StoreFull
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import Files, RealFiles, make_folders, overwrite
from tutti.backbone.losing import LosingFiles
from tutti.backbone.recording import Crashed, Operation, RecordingFiles

CONTENT = {
    "second/kind/gone": b"gone",
    "owner/kind/a": b"a" * 100,
    "owner/kind/b": b"b" * (3 << 20),  # in several writes
    "owner/other/c": b"c" * 10,
    "second/kind/d": b"d",
}


@dataclass
class Promised:
    """What was acknowledged before the crash."""

    present: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    fetched: bool = False


class Write:
    """Put, delete and fetch on a new store."""

    def prepare(self, files: Files, disk: Path) -> None:
        """Nothing was there before."""

    def run(self, files: Files, disk: Path, promised: Promised) -> None:
        blobs = EmbeddedBlobs(disk / "deep" / "store", files=files)
        for key, data in CONTENT.items():
            blobs.put_if_absent(key, data)
            promised.present.add(key)
        promised.present.remove("second/kind/gone")
        blobs.delete("second/kind/gone")
        promised.absent.add("second/kind/gone")
        blobs.fetch("owner/kind/b", disk / "local" / "copy")
        promised.fetched = True


class Confirm:
    """Put what another process has linked, but died before it had synced any folder."""

    def prepare(self, files: Files, disk: Path) -> None:
        make_folders(files, disk / "deep")
        other = RecordingFiles(files, skipped=lambda operation: operation.kind == "fsync_folder")
        EmbeddedBlobs(disk / "deep" / "store", files=other).put_if_absent("owner/kind/a", CONTENT["owner/kind/a"])

    def run(self, files: Files, disk: Path, promised: Promised) -> None:
        EmbeddedBlobs(disk / "deep" / "store", files=files).put_if_absent("owner/kind/a", CONTENT["owner/kind/a"])
        promised.present.add("owner/kind/a")


Scenario = Write | Confirm
SCENARIOS: list[Scenario] = [Write(), Confirm()]


def operations_of(scenario: Scenario) -> list[Operation]:
    with tempfile.TemporaryDirectory() as folder:
        scenario.prepare(RealFiles(), Path(folder))
        recording = RecordingFiles(RealFiles())
        scenario.run(recording, Path(folder), Promised())
        return recording.operations


def violations(
    scenario: Scenario,
    folder: Path,
    *,
    seed: str,
    crash_at: int | None,
    skipped: Callable[[Operation], bool] = lambda operation: False,
) -> list[str]:
    """Run, crash, lose, open again: what differs from the promises."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    losing = LosingFiles(seed, folder)
    scenario.prepare(losing, folder)
    promised = Promised()
    with contextlib.suppress(Crashed):
        scenario.run(RecordingFiles(losing, crash_at=crash_at, skipped=skipped), folder, promised)
    losing.crash()
    return [*_broken(folder, promised), *_left_over(folder)]


def _broken(folder: Path, promised: Promised) -> list[str]:
    blobs = EmbeddedBlobs(folder / "deep" / "store")
    found = []
    try:
        for stat in blobs.list(""):
            if blobs.get(stat.key) != CONTENT[stat.key]:
                found.append(f"{stat.key} is not whole")
            if stat.key in promised.absent:
                found.append(f"{stat.key} came back")
        for key in promised.present:
            try:
                blobs.get(key)
            except BlobMissing:
                found.append(f"{key} is lost")
    finally:
        blobs.close()
    copy = folder / "local" / "copy"
    if copy.exists() and copy.read_bytes() != CONTENT["owner/kind/b"]:
        found.append("the copy is not whole")
    if promised.fetched and not copy.exists():
        found.append("the copy is lost")
    return found


def _left_over(folder: Path) -> list[str]:
    staged = [path.name for path in (folder / "deep" / "store" / ".staging").iterdir()]
    return [] if len(staged) <= 1 else [f"left in .staging: {staged}"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: type(one).__name__)
def test_no_crash_breaks_a_promise(scenario: Scenario, tmp_path: Path) -> None:
    for crash_at in [*range(len(operations_of(scenario))), None]:
        for seed in range(6):
            found = violations(scenario, tmp_path / "disk", seed=f"{seed}/{crash_at}", crash_at=crash_at)
            assert found == [], f"crash before operation {crash_at}, seed {seed}"


@pytest.mark.parametrize(
    ("scenario", "number"),
    [
        pytest.param(scenario, operation.number, id=f"{type(scenario).__name__}-{operation.number}-{operation.kind}")
        for scenario in SCENARIOS
        for operation in operations_of(scenario)
        if operation.kind.startswith("fsync")
    ],
)
def test_without_any_one_fsync_something_is_lost(scenario: Scenario, number: int, tmp_path: Path) -> None:
    """A mutant a fsync: if one survived, that fsync would be useless."""
    total = len(operations_of(scenario))
    for seed in range(400):
        crash_at = random.Random(seed).choice([None, *range(number + 1, total)])
        if violations(
            scenario,
            tmp_path / "disk",
            seed=str(seed),
            crash_at=crash_at,
            skipped=lambda operation: operation.number == number,
        ):
            return
    pytest.fail(f"nothing is lost without {operations_of(scenario)[number]}")


def test_a_full_disk_at_any_operation_writes_nothing_and_the_put_can_be_repeated(tmp_path: Path) -> None:
    dry = EmbeddedBlobs(tmp_path / "dry", files=(recording := RecordingFiles(RealFiles())))
    first = len(recording.operations)
    dry.put_if_absent("owner/kind/b", CONTENT["owner/kind/b"])
    for number in range(first, len(recording.operations)):
        if recording.operations[number].kind == "unlink":
            continue  # a full disk does not refuse to free space
        blobs = EmbeddedBlobs(tmp_path / f"store{number}", files=RecordingFiles(RealFiles(), full_at=number))
        with pytest.raises(StoreFull, match="owner/kind/b"):
            blobs.put_if_absent("owner/kind/b", CONTENT["owner/kind/b"])
        for stat in blobs.list(""):
            assert blobs.get(stat.key) == CONTENT[stat.key]
        blobs.put_if_absent("owner/kind/b", CONTENT["owner/kind/b"])
        assert blobs.get("owner/kind/b") == CONTENT["owner/kind/b"]
        assert len(list((tmp_path / f"store{number}" / ".staging").iterdir())) == 1


def test_a_living_process_keeps_its_unfinished_blob_and_a_dead_ones_is_removed(tmp_path: Path) -> None:
    first = EmbeddedBlobs(tmp_path / "store")
    staging = tmp_path / "store" / ".staging"
    stray = staging / next(staging.iterdir()).name.replace(".lock", ".0")
    stray.write_bytes(b"unfinished")
    EmbeddedBlobs(tmp_path / "store").close()
    assert stray.exists()
    first.close()
    EmbeddedBlobs(tmp_path / "store").close()
    assert not stray.exists()


def test_overwrite_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    for crash_at in range(8):
        for seed in range(20):
            disk = tmp_path / "disk"
            shutil.rmtree(disk, ignore_errors=True)
            disk.mkdir()
            (disk / "target").write_bytes(b"old")
            losing = LosingFiles(f"{seed}/{crash_at}", disk)
            try:
                overwrite(RecordingFiles(losing, crash_at=crash_at), disk / "temp", disk / "target", [b"n", b"ew"])
                allowed = {b"new"}
            except Crashed:
                allowed = {b"old", b"new"}
            losing.crash()
            assert (disk / "target").read_bytes() in allowed
