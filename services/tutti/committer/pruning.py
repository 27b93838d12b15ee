"""Pruning: a policy with a dry run; first the name goes, then the manifest, then, after a grace period, the bytes."""

from __future__ import annotations

from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.bodies import Body, decode_body
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.keys import ShardName
from tutti.committer.records import Records
from tutti.committer.retention import CheckpointAge, reasons_to_keep
from tutti.committer.settings import CommitterSettings
from tutti.committer.suspects import WHOLE
from tutti.committer.uses import Uses
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    Checkpoint,
    Line,
    OpenEpochResponse,
)
from tutti.model.schedule import steady_until
from tutti.model.training import Training

IN_USE, SHOWN = "CHECKPOINT_IN_USE", 8
declare({IN_USE: "the import is needed by what the message names; stop, remove or unpin that first"})


class Pruning:
    def __init__(
        self,
        host: Host,
        records: Records,
        settings: CommitterSettings,
        checkpoints: Resource[Checkpoint],
        lines: Resource[Line],
        uses: Uses,
    ) -> None:
        self.host, self.records, self.settings, self.uses = host, records, settings, uses
        self.checkpoints, self.lines = checkpoints, lines

    def prune(self, job: str, *, keep_last: int, dry_run: bool) -> dict[CheckpointAge, list[str]]:
        """Prune, and return all committed checkpoints with the reasons why each was kept; one without was pruned.

        Pins and references are checked in the transaction that removes the names.
        """

        def choose(unit: Unit) -> dict[CheckpointAge, list[str]]:
            epoch = self.records.epoch(unit, job, lock=not dry_run)
            found = self.checkpoints.select(unit, job=f"jobs/{job}", state=CHECKPOINT_STATE_COMMITTED)
            in_use = {
                name: [f"in use by {', '.join(sorted(users))}"] for name, users in self.uses.by_checkpoint(unit).items()
            }
            if epoch:
                for name in {epoch.parent, OpenEpochResponse.FromString(epoch.response).checkpoint}:
                    in_use.setdefault(name, []).append("the newest attempt of the job began with it")
            lines = self.lines.select(unit, job=f"jobs/{job}")
            training = Training.from_json(epoch.training) if epoch else None
            reasons = reasons_to_keep(
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
            for each, kept in reasons.items():
                if not kept and not dry_run:
                    self._mark(unit, self.checkpoints.lock(unit, each.name))
            return reasons

        return self.host.units.run(choose)

    def prune_import(self, name: str, *, dry_run: bool) -> list[CheckpointAge]:
        """Prune an import, and return it; nothing if it was pruned before.

        Raises InvalidField for a checkpoint of a job, Refused with all who need it.
        """

        def choose(unit: Unit) -> list[CheckpointAge]:
            found = self.checkpoints.get(unit, name) if dry_run else self.checkpoints.lock(unit, name)
            if not found.folder_digest:
                expected = "an import, checkpoints/import-…/0/0; those of a job are pruned together, by its name"
                raise InvalidField("checkpoint", seen=name, expected=expected)
            if found.state == CHECKPOINT_STATE_PRUNED:
                return []
            if users := self._users(unit, found):
                rest = f" and {len(users) - SHOWN} others" if len(users) > SHOWN else ""
                raise Refused(IN_USE, f"{name} is needed by {', '.join(users[:SHOWN])}{rest}, so it is not pruned")
            if not dry_run:
                self._mark(unit, found)
            return [CheckpointAge(0, 0, name, found.bytes, pinned=False)]

        return self.host.units.run(choose)

    def _users(self, unit: Unit, found: Checkpoint) -> list[str]:
        """All who need an import. A job does that was trained from it as long as a checkpoint of the job is there: its
        exports take the tokenizer, the template and the licence of the import.
        """
        jobs = [
            f"jobs/{job}"
            for job in self.records.jobs_that_name(unit, found.name)
            if any(each.state in WHOLE for each in self.checkpoints.select(unit, job=f"jobs/{job}"))
        ]
        pin = ["a pin (`tutti checkpoints pin --off`)"] if found.pinned else []
        return [*sorted({*jobs, *self.uses.users(unit, found.name)}), *pin]

    def _mark(self, unit: Unit, locked: Checkpoint) -> None:
        """Take away the name of a checkpoint; the sweep deletes its blobs."""
        locked.state = CHECKPOINT_STATE_PRUNED
        self.checkpoints.put(unit, locked)
        self.records.mark_decision(unit, locked.name, pruned_at=micros(unit.now))

    def sweep(self, job: str) -> None:
        """Delete what was pruned: the manifest at once, the bytes when the grace is over."""

        def due(unit: Unit) -> tuple[list[str], list[Body], list[str]]:
            now = micros(unit.now)
            gone = self.records.unswept(unit, job, now)
            old = self.records.unswept(unit, job, now - int(self.settings.grace_seconds * 1e6))
            return (
                [row.manifest_key for row in gone],
                [decode_body(row.manifest) for row in old],
                [row.name for row in old],
            )

        keys, bodies, names = self.host.units.run(due)
        for key in keys:
            self.host.blobs.delete(key)
        for body in bodies:
            for key in _keys(body):
                self.host.blobs.delete(key)

        def mark(unit: Unit) -> None:
            for name in names:
                self.records.mark_decision(unit, name, swept=1)

        if names:
            self.host.units.run(mark)


def _keys(body: Body) -> list[str]:
    """The keys of the blobs of a checkpoint alone; a tokenizer belongs to datasets, too."""
    if isinstance(body, ImportBody):
        return [*(blob.key for blob in body.blobs), *(each.key for each in body.files if each.key)]
    return [key for blob in body.blobs for key in (blob.key, ShardName.of_shard(blob.key).report_key)]
