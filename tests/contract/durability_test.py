"""Files on a disk that loses what was not synced: every operation is a crash point, every fsync is needed."""

import contextlib
import functools
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.disks import BLOBS, SCENARIOS, Scenario

from tutti.backbone.blobs import StoreFull
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles, overwrite
from tutti.backbone.losing import LosingFiles
from tutti.backbone.recording import Crashed, Operation, RecordingFiles

Kind = type[Scenario]


@functools.cache
def operations_of(kind: Kind) -> list[Operation]:
    scenario = kind()
    with tempfile.TemporaryDirectory() as folder:
        unsynced = RecordingFiles(RealFiles(), skipped=lambda operation: True)
        scenario.prepare(unsynced, Path(folder))
        recording = RecordingFiles(unsynced)
        scenario.run(recording, Path(folder))
        return recording.operations


def violations(
    kind: Kind,
    folder: Path,
    *,
    seed: str,
    crash_at: int | None,
    skipped: Callable[[Operation], bool] = lambda operation: False,
) -> list[str]:
    """Run, crash, lose, open again: what differs from the promises."""
    scenario = kind()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    losing = LosingFiles(seed, folder)
    scenario.prepare(losing, folder)
    with contextlib.suppress(Crashed):
        scenario.run(RecordingFiles(losing, crash_at=crash_at, skipped=skipped), folder)
    losing.crash()
    return scenario.broken(folder)


@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
def test_no_crash_breaks_a_promise(kind: Kind, memory: Path) -> None:
    for crash_at in [*range(len(operations_of(kind))), None]:
        for seed in range(6):
            found = violations(kind, memory / "disk", seed=f"{seed}/{crash_at}", crash_at=crash_at)
            assert found == [], f"crash before operation {crash_at}, seed {seed}"


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, operation.number, id=f"{kind.__name__}-{operation.number}-{operation.kind}")
        for kind in SCENARIOS
        for operation in operations_of(kind)
        if operation.kind.startswith("fsync")
    ],
)
def test_without_any_one_fsync_something_is_lost(kind: Kind, number: int, memory: Path) -> None:
    """A mutant a fsync: if one survived, that fsync would be useless."""
    total = len(operations_of(kind))
    for seed in range(400):
        crash_at = random.Random(seed).choice([None, *range(number + 1, total)])
        if violations(
            kind,
            memory / "disk",
            seed=str(seed),
            crash_at=crash_at,
            skipped=lambda operation: operation.number == number,
        ):
            return
    pytest.fail(f"nothing is lost without {operations_of(kind)[number]}")


def is_numbered(number: int, operation: Operation) -> bool:
    return operation.number == number


def test_a_full_disk_at_any_operation_writes_nothing_and_the_put_can_be_repeated(tmp_path: Path) -> None:
    dry = EmbeddedBlobs(tmp_path / "dry", files=(recording := RecordingFiles(RealFiles())))
    first = len(recording.operations)
    dry.put_if_absent("owner/kind/b", BLOBS["owner/kind/b"])
    for number in range(first, len(recording.operations)):
        if recording.operations[number].kind == "unlink":
            continue  # a full disk does not refuse to free space
        files = RecordingFiles(RealFiles(), full=functools.partial(is_numbered, number))
        blobs = EmbeddedBlobs(tmp_path / f"store{number}", files=files)
        with pytest.raises(StoreFull, match="owner/kind/b"):
            blobs.put_if_absent("owner/kind/b", BLOBS["owner/kind/b"])
        for stat in blobs.list(""):
            assert blobs.get(stat.key) == BLOBS[stat.key]
        blobs.put_if_absent("owner/kind/b", BLOBS["owner/kind/b"])
        assert blobs.get("owner/kind/b") == BLOBS["owner/kind/b"]
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


def test_overwrite_leaves_the_old_or_the_new(memory: Path) -> None:
    for crash_at in range(8):
        for seed in range(20):
            disk = memory / "disk"
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
