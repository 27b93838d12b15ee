"""A short training as its committer sees it, dying at one point and living on, and what must hold.

First life: two ranks, a report of which nobody tells, an epoch sealed with a half-reported step, one rank after a
transition. The next life opens a higher epoch and finishes the job, as a scheduler would. Then retention.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tutti.backbone import ManualClock
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import Files
from tutti.backbone.losing import LosingFiles
from tutti.backbone.recording import Crashed, Operation, RecordingFiles
from tutti.checkpoints import CheckpointBody
from tutti.checkpoints import example_test as example
from tutti.checkpoints.verification import verify_manifest
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint, PruneCheckpointsRequest
from tutti.records.errors import CorpusError

from .crashing import CrashingBlobs, CrashingDatabase, CrashingLog, Points

STEPS, EVERY = 15, 5
TRAINING = example.training(steps=STEPS)


@dataclass
class Outcome:
    """What one story showed. `points` or `operations` are those of its first life."""

    violations: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    crashed: bool = False
    export: list[str] = field(default_factory=list)


def tell(
    folder: Path,
    *,
    crash_at: int | None = None,
    later: Sequence[int] = (),
    file_crash_at: int | None = None,
    seed: int = 0,
    skipped: Callable[[Operation], bool] = lambda operation: False,
) -> Outcome:
    """Live, die at a point (of the ports, or of the file operations), look, live on, look again.

    `later` are points at which the lives that follow die, before the last one that does not.
    """
    outcome, points, clock = Outcome(), Points(crash_at), ManualClock()
    (folder / "blobs").mkdir(parents=True)
    losing = LosingFiles(seed, folder / "blobs") if file_crash_at is not None else None
    recording = RecordingFiles(losing, crash_at=file_crash_at, skipped=skipped) if losing else None
    try:
        _live(folder, clock, 0, _first_life, points, recording)
    except Crashed:
        outcome.crashed = True
    outcome.points = points.labels
    outcome.operations = recording.operations if recording else []
    if losing is not None:
        losing.crash()
    decided = _look(folder, outcome)
    for life, point in enumerate([*later, None], start=1):
        clock.advance(1)
        try:
            _live(folder, clock, life, _next_life, Points(point), None, outcome=outcome)
        except Crashed:
            pass
        except Exception as error:
            outcome.violations.append(f"life {life} failed: {type(error).__name__}: {error}")
            return outcome
        after = _look(folder, outcome)
        for name, manifest in decided.items():
            if after.get(name) != manifest:
                outcome.violations.append(f"the decision {name} was lost or changed in life {life}")
        decided = after
    shutil.rmtree(folder)
    return outcome


def _live(
    folder: Path,
    clock: ManualClock,
    life: int,
    story: Callable[[Rehearsal, int, Outcome], None],
    points: Points,
    files: Files | None,
    *,
    outcome: Outcome | None = None,
) -> None:
    world = None
    try:
        world = Rehearsal(
            folder,
            files=files,
            training=TRAINING,
            clock=clock,
            life=life,
            wrap_blobs=lambda port: CrashingBlobs(port, points),
            wrap_database=lambda port: CrashingDatabase(port, points),
            wrap_log=lambda port: CrashingLog(port, points),
        )
        story(world, life, outcome or Outcome())
    finally:
        if world is not None:
            world.close()


def _first_life(world: Rehearsal, life: int, outcome: Outcome) -> None:
    world.open_epoch(1, 2)
    world.tell(*world.store(5, dp=2, epoch=1, rank=0))
    world.store(5, dp=2, epoch=1, rank=1)
    world.settle()
    world.clock.advance(31)
    world.settle()
    world.tell(*world.store(10, dp=2, epoch=1, rank=0))
    _go_on(world, 2, 1)


def _next_life(world: Rehearsal, life: int, outcome: Outcome) -> None:
    _go_on(world, 10 * life, 1 + life % 3)
    told = [each for each in world.events(Checkpoint) if each.state == CHECKPOINT_STATE_COMMITTED]
    committed = {each.name: each for each in told}
    for step in range(EVERY, STEPS + 1, EVERY):
        name = f"checkpoints/j/0/{step}"
        if name not in committed:
            outcome.violations.append(f"{name} was never announced")
        elif committed[name].state_digest != world.checkpoint(step).state_digest:
            outcome.violations.append(f"{name} was announced with another state")
    manifests = [CheckpointBody.decode(world.blobs.get(stat.key)) for stat in world.blobs.list("committer/manifests/")]
    named = {blob.key for body in manifests for blob in body.blobs}
    outcome.violations += [
        f"{stat.key} was left behind" for stat in world.blobs.list("trainer/shards/") if stat.key not in named
    ]
    outcome.export = world.export()


def _go_on(world: Rehearsal, epoch: int, dp: int) -> None:
    """Open an epoch, write what is missing, open another to give the resume point up, prune."""
    start = world.open_epoch(epoch, dp, transition="transitions/j/1")
    for step in range(start.step + EVERY, STEPS + 1, EVERY):
        world.snapshot(step, dp=dp, epoch=epoch, line=start.line)
        world.settle()
    world.open_epoch(epoch + 1, dp, transition="transitions/j/1")
    world.api.PruneCheckpoints(PruneCheckpointsRequest(job="jobs/j", keep_last=2), CALL)
    world.settle()
    world.clock.advance(700)
    world.settle()


def _look(folder: Path, outcome: Outcome) -> dict[str, bytes]:
    """Check what is on the disks while nobody lives; the decisions, by name."""
    rows: dict[str, tuple[bytes, str, int | None]] = {}
    if (folder / "committer.db").exists():
        with closing(sqlite3.connect(folder / "committer.db")) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if "decisions" in tables:
                query = "SELECT name, manifest, manifest_key, pruned_at FROM decisions"
                rows = {name: (bytes(manifest), key, gone) for name, manifest, key, gone in connection.execute(query)}
    by_key = {key: (manifest, gone) for manifest, key, gone in rows.values()}
    blobs = EmbeddedBlobs(folder / "blobs")
    try:
        for stat in blobs.list("committer/manifests/"):
            manifest, gone = by_key.get(stat.key, (b"", None))
            data = blobs.get(stat.key)
            if data != manifest:
                why = "without a decision" if not manifest else "other than was decided"
                outcome.violations.append(f"{stat.key} is visible {why}")
            elif gone is None:
                outcome.violations += _damage(blobs, data)
    finally:
        blobs.close()
    return {name: manifest for name, (manifest, _, _) in rows.items()}


def _damage(blobs: EmbeddedBlobs, data: bytes) -> list[str]:
    try:
        found = verify_manifest(blobs, CheckpointBody.decode(data))
    except CorpusError as error:
        return [str(error)]
    return [f"visible, but damaged: {problem}" for problem in found.problems]
