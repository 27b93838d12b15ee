"""Pruning: a policy with a dry run; first the name goes, then the manifest, then, after a grace period, the bytes."""

from __future__ import annotations

from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import CheckpointBody
from tutti.committer.records import Records
from tutti.committer.retention import CheckpointAge, prunable
from tutti.committer.served import Served
from tutti.committer.settings import CommitterSettings
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    Checkpoint,
    Line,
    OpenEpochResponse,
)
from tutti.model.schedule import steady_until
from tutti.model.training import Training


class Pruning:
    def __init__(
        self,
        host: Host,
        records: Records,
        settings: CommitterSettings,
        checkpoints: Resource[Checkpoint],
        lines: Resource[Line],
        served: Served,
    ) -> None:
        self.host, self.records, self.settings, self.served = host, records, settings, served
        self.checkpoints, self.lines = checkpoints, lines

    def prune(self, job: str, *, keep_last: int, dry_run: bool) -> list[CheckpointAge]:
        """Prune, and return the pruned checkpoints; pins and references are checked in the transaction that removes the
        names.
        """

        def choose(unit: Unit) -> list[CheckpointAge]:
            epoch = self.records.epoch(unit, job, lock=not dry_run)
            found = self.checkpoints.select(unit, job=f"jobs/{job}", state=CHECKPOINT_STATE_COMMITTED)
            in_use = self.served.names(unit)
            if epoch:
                in_use |= {epoch.parent, OpenEpochResponse.FromString(epoch.response).checkpoint}
            lines = self.lines.select(unit, job=f"jobs/{job}")
            training = Training.from_json(epoch.training) if epoch else None
            chosen = prunable(
                [
                    CheckpointAge(each.line, each.step, each.name, each.bytes, each.pinned, bool(each.suspect))
                    for each in found
                ],
                keep_last=keep_last,
                branch_points={(line.parent_line, line.from_step) for line in lines},
                in_use=in_use,
                audited=training.audited if training else lambda step: step,
                steady_until=steady_until(training.optimizer) if training else 0,
            )
            for each in () if dry_run else chosen:
                checkpoint = self.checkpoints.lock(unit, each.name)
                checkpoint.state = CHECKPOINT_STATE_PRUNED
                self.checkpoints.put(unit, checkpoint)
                self.records.mark_decision(unit, each.name, pruned_at=micros(unit.now))
            return chosen

        return self.host.units.run(choose)

    def sweep(self, job: str) -> None:
        """Delete what was pruned: the manifest at once, the bytes when the grace is over."""

        def due(unit: Unit) -> tuple[list[str], list[CheckpointBody], list[str]]:
            now = micros(unit.now)
            gone = self.records.unswept(unit, job, now)
            old = self.records.unswept(unit, job, now - int(self.settings.grace_seconds * 1e6))
            return (
                [row.manifest_key for row in gone],
                [CheckpointBody.decode(row.manifest) for row in old],
                [row.name for row in old],
            )

        keys, bodies, names = self.host.units.run(due)
        for key in keys:
            self.host.blobs.delete(key)
        for body in bodies:
            for blob in body.blobs:
                self.host.blobs.delete(blob.key)
                self.host.blobs.delete(ShardName.of_shard(blob.key).report_key)

        def mark(unit: Unit) -> None:
            for name in names:
                self.records.mark_decision(unit, name, swept=1)

        if names:
            self.host.units.run(mark)
