"""Committing: decide a step when all its shards are reported and verified, then publish its manifest.

The decision is one fenced row with the exact bytes; nothing is visible before it, and what it says is made visible
however often we die. Every method may be called at any time, by anybody, again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tutti.backbone.blobs import BlobExists, BlobMissing
from tutti.chassis import version
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import checkpoint_name, experience_name
from tutti.checkpoints.manifest import CheckpointBody, CurvePlace, build_manifest
from tutti.checkpoints.report import ShardReport
from tutti.committer import quarantine
from tutti.committer.decision import ShardState, next_step
from tutti.committer.records import DecisionRow, EpochRow, Records, ShardRow, line_name
from tutti.committer.settings import CommitterSettings
from tutti.committer.suspects import Suspects
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_DECIDED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    DivergenceDetected,
    Line,
)
from tutti.model.shapes import to_wire
from tutti.model.training import Training
from tutti.native.deferred import deferred
from tutti.records.errors import CorpusError

if TYPE_CHECKING:
    from tutti.committer import curves
else:  # with it comes numpy
    curves = deferred("tutti.committer.curves")


@dataclass(frozen=True)
class _Ready:
    """A step that can be decided; `given_up` are shards of the steps before it that cannot."""

    epoch: EpochRow
    shards: Sequence[ShardRow]
    given_up: Sequence[ShardRow]


class Commits:
    def __init__(
        self,
        host: Host,
        records: Records,
        settings: CommitterSettings,
        checkpoints: Resource[Checkpoint],
        lines: Resource[Line],
    ) -> None:
        self.host, self.records, self.settings = host, records, settings
        self.checkpoints, self.lines = checkpoints, lines
        self.suspects = Suspects(checkpoints, lines)

    def finish(self, job: str) -> bool:
        """Decide and publish all that is ready; whether anything was."""
        did = False
        while self._decide(job):
            did = True
        self._tell_given_up(job)
        return self._publish(job) or did

    def compare_late(self, job: str) -> None:
        """Hold complete sets of late shards against what was decided, then forget them.

        A set that lacks some, or is damaged, is forgotten when none came for the grace: nobody waits for it.
        """
        late = self.host.units.run(lambda unit: self.records.late_shards(unit, job))
        by_step: dict[tuple[int, int, int], list[ShardRow]] = {}
        for shard in late:
            by_step.setdefault((shard.line, shard.step, shard.epoch), []).append(shard)
        for shards in by_step.values():
            self._compare(job, shards)

    def decided(self, name: str) -> Checkpoint:
        """A checkpoint whose decision stands as it was written. Raises NotFound, CorruptRow."""

        def read(unit: Unit) -> Checkpoint:
            self.records.decision(unit, name)
            return self.checkpoints.get(unit, name)

        return self.host.units.run(read)

    def damaged(self, name: str, problems: Sequence[str], *, found_by: str) -> Checkpoint:
        """Quarantine a decided checkpoint: record first, then state. Nothing is overwritten."""
        found = self.host.units.run(lambda unit: self.checkpoints.get(unit, name))
        job = name.split("/")[1]
        quarantine.record(self.host.blobs, job, found.line, found.step, found_by=found_by, problems=problems)

        def mark(unit: Unit) -> Checkpoint:
            checkpoint = self.checkpoints.lock(unit, name)
            if checkpoint.state in (CHECKPOINT_STATE_DECIDED, CHECKPOINT_STATE_COMMITTED):
                checkpoint.state, checkpoint.reason = CHECKPOINT_STATE_QUARANTINED, quarantine.reason(problems)
                checkpoint = self.checkpoints.put(unit, checkpoint)
            self.records.mark_decision(unit, name, published=1)
            return checkpoint

        return self.host.units.run(mark)

    def _decide(self, job: str) -> bool:
        """Decide, or give up, the next step when it is ready; whether it did."""
        ready = self.host.units.run(lambda unit: self._ready(unit, job))
        if ready is None:
            return False
        try:
            reports = self._reports(ready.shards)
            curve = curves.keep(self.host.blobs, [*self._readable(ready.given_up), *reports], after=ready.epoch.base)
            body = _body(reports, ready.shards, ready.epoch, curve)
        except CheckpointError as error:
            self._give_up(ready, str(error))
            return True
        body, manifest = self._manifest(body)
        row = DecisionRow(
            name=body.name,
            job=job,
            line=body.line,
            step=body.step,
            epoch=body.epoch,
            state_digest=body.state_digest,
            manifest_key=body.manifest_key,
            manifest=manifest,
        )
        return self.host.units.run(lambda unit: self._record(unit, ready.epoch, row, body))

    def _ready(self, unit: Unit, job: str) -> _Ready | None:
        epoch = self.records.epoch(unit, job)
        if epoch is None:
            return None
        shards = self.records.shards_after(unit, epoch)
        if not shards:
            return None
        due = Training.from_json(epoch.training).checkpoint_due
        found = next_step((shard.progress for shard in shards), base=epoch.base, ranks=epoch.ranks, due=due)
        if found is None or not found.ready:
            return None
        given_up = [shard for shard in shards if shard.step < found.step and shard.state is ShardState.FAILED]
        return _Ready(epoch, [shard for shard in shards if shard.step == found.step], given_up)

    def _manifest(self, body: CheckpointBody) -> tuple[CheckpointBody, bytes]:
        """Return the manifest of these very shards if it is there already, since then the checkpoint exists; else ours.

        It is there if it was decided after our database was copied to a backup. Another process had read the bytes
        back, which it names, so its bytes are not ours.
        """
        with contextlib.suppress(BlobMissing, CorpusError):
            data = self.host.blobs.get(body.manifest_key)
            found = CheckpointBody.decode(data)
            same = (found.epoch, found.parent, found.state_digest) == (body.epoch, body.parent, body.state_digest)
            if same and found.blobs == body.blobs:
                return found, data
        return body, body.manifest(producer=version.producer("committer")).encode()

    def _reports(self, shards: Sequence[ShardRow]) -> list[ShardReport]:
        """Raises CheckpointError when a stored report is damaged or gone."""
        reports = []
        for shard in shards:
            try:
                reports.append(ShardReport.decode(self.host.blobs.get(shard.report_key), digest=shard.report_digest))
            except BlobMissing as error:
                raise CheckpointError(f"{shard.report_key}: no such blob, expected {shard.report_digest}") from error
        return reports

    def _readable(self, shards: Sequence[ShardRow]) -> list[ShardReport]:
        """The reports of these that can be read: a step whose state is lost may still tell its curve."""
        found: list[ShardReport] = []
        for shard in shards:
            with contextlib.suppress(CheckpointError):
                found += self._reports([shard])
        return found

    def _record(self, unit: Unit, seen: EpochRow, row: DecisionRow, body: CheckpointBody) -> bool:
        """The decision: under the lock of the epoch that wrote it, in order of steps."""
        epoch = self.records.locked_epoch(unit, row.job)
        if (epoch.epoch, epoch.line, epoch.base) != (seen.epoch, seen.line, seen.base):
            return True
        self.records.add_decision(unit, row)
        checkpoint = Checkpoint(
            name=row.name,
            job=f"jobs/{row.job}",
            line=row.line,
            step=row.step,
            epoch=row.epoch,
            model_digest=body.model_digest,
            state_digest=row.state_digest,
            parent=body.parent,
            shape=to_wire(body.shape),
            bytes=body.nbytes,
            manifest_key=row.manifest_key,
            state=CHECKPOINT_STATE_DECIDED,
            bits_per_byte=body.bits_per_byte,
            loss=body.loss or 0.0,
            dataset_digest=body.training.dataset,
            verified_by=body.verified_by,
            curve=curves.to_wire(body.curve),
            experiences=[
                experience_name(row.job, row.line, each) for each in body.training.iterations(epoch.base, row.step)
            ],
        )
        checkpoint.decided_at.FromDatetime(unit.now)
        self.checkpoints.create(unit, checkpoint)
        self.suspects.judge(unit, checkpoint)
        self.records.put_epoch(unit, replace(epoch, base=row.step, parent=row.name))
        return True

    def _tell_given_up(self, job: str) -> None:
        """Say on the line which step of the open epoch will not be decided: nobody need wait for it."""

        def tell(unit: Unit) -> None:
            epoch = self.records.epoch(unit, job)
            shards = self.records.shards_after(unit, epoch) if epoch else []
            failed = [shard for shard in shards if shard.state is ShardState.FAILED]
            if epoch is None or not failed:
                return
            last = max(failed, key=lambda shard: shard.step)
            line = self.lines.lock(unit, line_name(job, epoch.line))
            if line.epoch == epoch.epoch and line.given_up < last.step:
                line.given_up = last.step
                line.given_up_because = quarantine.reason([f"rank {last.rank} on {last.node}: {last.error}"])
                self.lines.put(unit, line)

        self.host.units.run(tell)

    def _publish(self, job: str) -> bool:
        rows = self.host.units.run(lambda unit: self.records.unpublished(unit, job))
        for row in rows:
            try:
                self.host.blobs.put_if_absent(row.manifest_key, row.manifest)
            except BlobExists as error:
                self.damaged(row.name, [str(error)], found_by="publish")
                continue
            self.host.units.run(lambda unit, row=row: self._release(unit, row))  # type: ignore[misc]
        return bool(rows)

    def _release(self, unit: Unit, row: DecisionRow) -> None:
        checkpoint = self.checkpoints.lock(unit, row.name)
        self.records.mark_decision(unit, row.name, published=1)
        if checkpoint.state != CHECKPOINT_STATE_DECIDED:
            return
        checkpoint.state = CHECKPOINT_STATE_COMMITTED
        self.checkpoints.put(unit, checkpoint)
        if checkpoint.folder_digest:
            return  # an import is of no job, and so on no line
        line = self.lines.lock(unit, line_name(row.job, row.line))
        if row.step > line.head:
            line.head = row.step
            self.lines.put(unit, line)

    def _give_up(self, ready: _Ready, why: str) -> None:
        """The step's shards do not make a state: record it, and let later steps be decided."""
        first = ready.shards[0]
        quarantine.record(
            self.host.blobs, first.job, first.line, first.step, found_by=f"epoch {first.epoch}", problems=[why]
        )

        def fail(unit: Unit) -> None:
            for shard in self.records.shards(unit, first.job, first.epoch, first.line, step=first.step):
                self.records.put_shard(unit, shard, state=ShardState.FAILED, error=why)

        self.host.units.run(fail)

    def _compare(self, job: str, shards: Sequence[ShardRow]) -> None:
        first = shards[0]
        name = checkpoint_name(job, first.line, first.step)
        grace = int(self.settings.grace_seconds * 1e6)
        over = max(shard.reported_at for shard in shards) <= micros(self.host.clock.now()) - grace
        epoch, decided = self.host.units.run(
            lambda unit: (self.records.epoch(unit, job), self.records.decision(unit, name))
        )
        other = None
        if epoch is not None and decided is not None:
            try:
                other = _body(self._reports(shards), shards, epoch)
            except CheckpointError:
                if not over:
                    return  # not complete, or damaged: no witness of anything

        def settle(unit: Unit) -> None:
            if other is not None and decided is not None and other.state_digest != decided.state_digest:
                self._diverge(unit, decided, other)
            if other is not None or decided is None or over:
                self.records.forget_shards(unit, [shard.name for shard in shards])
                self.records.note_remains(unit, job)

        self.host.units.run(settle)

    def _diverge(self, unit: Unit, decided: DecisionRow, other: CheckpointBody) -> None:
        checkpoint = self.checkpoints.lock(unit, decided.name)
        if not self.records.add_divergence(unit, decided.name, other.epoch, other.state_digest):
            return
        # Two kernel signatures may give two states without a defect.
        other_kernel = other.kernel != CheckpointBody.decode(decided.manifest).kernel
        seen = f"epoch {other.epoch} reached this step with another state, {other.state_digest}"
        checkpoint.reason = f"{seen}, under another kernel signature" if other_kernel else seen
        self.checkpoints.put(unit, checkpoint)
        if not other_kernel:
            self.suspects.mark(unit, decided.job, decided.line, decided.step - 1, f"step {decided.step}: {seen}")
        unit.fact(
            decided.name,
            DivergenceDetected(
                checkpoint=decided.name,
                decided_epoch=decided.epoch,
                decided_digest=decided.state_digest,
                epoch=other.epoch,
                state_digest=other.state_digest,
                other_kernel=other_kernel,
            ),
        )


def _body(
    reports: Sequence[ShardReport], shards: Sequence[ShardRow], epoch: EpochRow, curve: CurvePlace | None = None
) -> CheckpointBody:
    """Raises CheckpointError when the reports make no whole state."""
    readers = sorted({f"{shard.verifier}/{shard.process}" for shard in shards if shard.verifier})
    return build_manifest(
        reports,
        training=Training.from_json(epoch.training),
        parent=epoch.parent,
        verified_by=readers,
        curve=curve,
    )
