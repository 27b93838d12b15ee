"""Shards: reported under the fence of their epoch, then read back by a process that did not write them.

A report is recorded once, whether it came by a call or was found in the store. When all ranks of a step have reported,
its shards can be claimed by nodes of the job that did not write them; a claim that lapses goes to another reader, at
last to the committer's own pool. Damage counts, and leaves evidence, once that pool has read it.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone import Isolation
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import AlreadyExists, FencedOff, InvalidField, NotFound, Refused, StaleEpoch, declare
from tutti.chassis.service import Host, TaskKind
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Task, TaskContext
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import REPORTS, ShardName, checkpoint_name
from tutti.checkpoints.report import ShardReport
from tutti.committer import holders, quarantine
from tutti.committer.decision import ShardState
from tutti.committer.readback import Fetched, read_back, shard_keys
from tutti.committer.records import DecisionRow, EpochRow, Records, ShardRow
from tutti.committer.settings import CommitterSettings
from tutti.records.canonical import bytes_digest

OWN_NODE, OWN_PROCESS = "committer", "pool"
TASK = "verify"
REPORT_REFUSED, WROTE_IT = "REPORT_REFUSED", "WROTE_IT"
declare(
    {
        REPORT_REFUSED: "the report blob is missing, damaged or of another attempt; store it, then report again",
        WROTE_IT: "a process cannot verify a shard that it wrote itself",
    }
)
Wake = Callable[[str], None]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recorded:
    """The outcome of a report: `decided` when its step needs no more reports, `stale` when its epoch was sealed."""

    decided: bool
    stale: str = ""


@dataclass(frozen=True)
class Claim:
    """Work for a reader; `epoch` fences what it reports, `training` says what a shard of it holds."""

    verification: str
    epoch: int
    report_key: str
    report_digest: str
    training: str


@dataclass(frozen=True)
class _Place:
    """The context of a report of `name`: the open epoch, the decision of its step, and earlier reports."""

    name: ShardName
    epoch: EpochRow
    decision: DecisionRow | None
    known: ShardRow | None

    @property
    def is_open(self) -> bool:
        return (self.name.epoch, self.name.line) == (self.epoch.epoch, self.epoch.line)

    @property
    def decided(self) -> bool:
        return self.decision is not None and self.decision.epoch == self.name.epoch

    @property
    def recorded(self) -> Recorded:
        if self.is_open:
            return Recorded(self.decision is not None)
        open_ = f"epoch {self.epoch.epoch} on line {self.epoch.line} is open"
        return Recorded(self.decided, f"{self.name}: {open_}; stop, this one is sealed")


class Shards:
    def __init__(self, host: Host, records: Records, settings: CommitterSettings, wake: Wake) -> None:
        self.host, self.records, self.settings, self.wake = host, records, settings, wake

    def report(self, name: ShardName, *, node: str, report_digest: str) -> bool:
        """Record a stored shard; whether its step is decided. Raises StaleEpoch, Refused, AlreadyExists, NotFound."""
        report = self._read(name, report_digest)
        if report.node != node:
            raise InvalidField("node", seen=node, expected=report.node)
        recorded = self.host.units.run(lambda unit: self._record(unit, report, report_digest))
        if recorded.stale and not recorded.decided:
            raise StaleEpoch(recorded.stale)
        return recorded.decided

    def lost(self, name: ShardName, *, node: str, error: str) -> bool:
        """Record that a shard will never be stored; whether its step is decided. Raises as `report` does."""
        recorded = self.host.units.run(lambda unit: self._record_lost(unit, name, node, error))
        if recorded.stale and not recorded.decided:
            raise StaleEpoch(recorded.stale)
        return recorded.decided

    def adopt(self, job: str) -> None:
        """Record the reports in the store of which nobody told us: their agent died in between."""
        epoch = self.host.units.run(lambda unit: self.records.epoch(unit, job))
        if epoch is None:
            return
        known = self.host.units.run(
            lambda unit: {row.name for row in self.records.shards(unit, job, epoch.epoch, epoch.line)}
        )
        for stat in self.host.blobs.list(f"{REPORTS}{job}.{epoch.line}."):
            try:
                name = ShardName.of_report(stat.key)
            except CheckpointError:
                continue
            if (name.job, name.line, name.epoch) == (job, epoch.line, epoch.epoch) and str(name) not in known:
                self._adopt_one(name)

    def claim(self, node: str, process: str) -> Claim | None:
        """The oldest shard of the node's jobs that waits for a reader and was not written by this node."""

        def take(unit: Unit) -> Claim | None:
            for row in self.records.claimable(unit, node, micros(unit.now)):
                if epoch := self._open_epoch(unit, row):
                    return self._take(unit, row, epoch, node, process)
            return None

        return self.host.units.run(take, isolation=Isolation.READ_COMMITTED)  # the row's lock is the proof

    def verified(self, verification: str, claim: int, *, node: str, process: str, error: str) -> None:
        """Record what a reader found; damage counts after the committer has read the shard itself.

        Raises FencedOff for a claim that lapsed, Refused for the writer's own word.
        """

        def record(unit: Unit) -> None:
            row = self.records.shard(unit, verification, lock=True)
            if row is None:
                raise NotFound(f"verification {verification}")
            if node == row.node:
                raise Refused(WROTE_IT, f"{verification} was written by {node}; another node must read it back")
            if error:
                self._doubt(unit, row, claim, node, process)
            else:
                self._settle(unit, verification, claim, node=node, process=process, error="")

        self.host.units.run(record)

    def impatient(self, job: str) -> None:
        """Read ourselves what no agent has read in time."""

        def take_over(unit: Unit) -> None:
            epoch = self.records.epoch(unit, job)
            late = micros(unit.now) - int(self.settings.patience_seconds * 1e6)
            for row in self.records.shards_after(unit, epoch) if epoch else []:
                if row.state is ShardState.PENDING and row.reported_at <= late:
                    self._enqueue(unit, row)

        self.host.units.run(take_over)

    def task(self) -> TaskKind:
        """Reading a shard back in the committer's own pool."""
        return TaskKind(name=TASK, run=self._read_back, on_failed=self._unreadable)

    def _read(self, name: ShardName, report_digest: str) -> ShardReport:
        key = name.report_key
        try:
            report = ShardReport.decode(self.host.blobs.get(key), digest=report_digest)
        except BlobMissing as error:
            raise Refused(REPORT_REFUSED, f"{key} is not in the store; put the report before telling of it") from error
        except CheckpointError as error:
            raise Refused(REPORT_REFUSED, f"{key}: {error}") from error
        if report.report_key != key:
            raise Refused(REPORT_REFUSED, f"{key} is the report of {report.report_key}; expected its own")
        return report

    def _adopt_one(self, name: ShardName) -> None:
        data = self.host.blobs.get(name.report_key)
        try:
            report = ShardReport.decode(data)
        except CheckpointError as error:
            quarantine.record(
                self.host.blobs, name.job, name.line, name.step, found_by="adoption", problems=[str(error)]
            )
            return
        if report.report_key != name.report_key:
            return
        try:
            self.host.units.run(lambda unit: self._record(unit, report, bytes_digest(data)))
        except (AlreadyExists, InvalidField, Refused) as problem:
            # Any agent can put a report into the store, so a wrong one must not keep an epoch from being opened.
            _log.warning("%s is ignored: %s", name.report_key, problem)

    def _record(self, unit: Unit, report: ShardReport, report_digest: str) -> Recorded:
        name, node = report.name, report.node
        place = self._place(unit, name)
        known = place.known
        if known is not None and known.report_digest != report_digest:
            raise AlreadyExists(f"the report of {name}", ours=known.report_digest, theirs=report_digest)
        if place.is_open:
            _require_epochs_own(report, place.epoch)
            self._require_placed(unit, name, node)
        else:
            holders.require(self.records, unit, place.epoch, name.epoch, node)
            if not place.decided:
                self.records.note_remains(unit, name.job)
        if known is None and place.decision is not None and not place.decided:
            self._add(unit, name, node, report_digest, ShardState.LATE)
        elif known is None and place.is_open and place.decision is None:
            self._add(unit, name, node, report_digest, ShardState.REPORTED)
            self._release(unit, place.epoch, name.step)
        return place.recorded

    def _record_lost(self, unit: Unit, name: ShardName, node: str, error: str) -> Recorded:
        place = self._place(unit, name)
        if place.is_open and name.rank >= place.epoch.ranks:
            raise InvalidField("rank", seen=name.rank, expected=f"one of the {place.epoch.ranks} of the open epoch")
        if place.is_open:
            self._require_placed(unit, name, node)
        if place.is_open and place.known is None and place.decision is None:
            self._add(unit, name, node, "", ShardState.FAILED, error=f"never stored: {error}"[: quarantine.MAX_REASON])
        return place.recorded

    def _place(self, unit: Unit, name: ShardName) -> _Place:
        """Find the context of a report, under the lock of its epoch. Raises NotFound, Refused."""
        epoch = self.records.locked_epoch(unit, name.job)
        if name.epoch > epoch.epoch:
            raise Refused(REPORT_REFUSED, f"{name}: epoch {epoch.epoch} is open, {name.epoch} was never opened")
        unit.on_commit(lambda: self.wake(name.job))
        decision = self.records.decision(unit, checkpoint_name(name.job, name.line, name.step))
        return _Place(name, epoch, decision, self.records.shard(unit, str(name), lock=True))

    def _require_placed(self, unit: Unit, name: ShardName, node: str) -> None:
        """Raise InvalidField for the shard of a rank that the open epoch has on another node."""
        placement = self.records.placement(unit, name.job, name.epoch)
        if placement and placement[name.rank] != node:
            raise InvalidField("node", seen=node, expected=f"{placement[name.rank]}, where rank {name.rank} is placed")

    def _add(
        self, unit: Unit, name: ShardName, node: str, report_digest: str, state: ShardState, error: str = ""
    ) -> None:
        self.records.add_shard(
            unit,
            ShardRow(
                name=str(name),
                job=name.job,
                line=name.line,
                step=name.step,
                epoch=name.epoch,
                rank=name.rank,
                node=node,
                report_key=name.report_key,
                report_digest=report_digest,
                state=state,
                reported_at=micros(unit.now),
                error=error,
            ),
        )

    def _release(self, unit: Unit, epoch: EpochRow, step: int) -> None:
        """All ranks have reported: their shards can be claimed now."""
        rows = self.records.shards(unit, epoch.job, epoch.epoch, epoch.line, step=step)
        if len(rows) < epoch.ranks:
            return
        for row in rows:
            if row.state is ShardState.REPORTED:
                pending = self.records.put_shard(unit, row, state=ShardState.PENDING, reported_at=micros(unit.now))
                if epoch.nodes <= 1:
                    self._enqueue(unit, pending)

    def _enqueue(self, unit: Unit, row: ShardRow, again: int = 0) -> None:
        id_ = f"{TASK}.{row.name}/{again}" if again else f"{TASK}.{row.name}"
        unit.enqueue(TASK, checkpoint_name(row.job, row.line, row.step), row.name.encode(), id=id_)

    def _open_epoch(self, unit: Unit, row: ShardRow) -> EpochRow | None:
        """The epoch of a shard, unless it was sealed."""
        epoch = self.records.epoch(unit, row.job)
        return epoch if epoch is not None and (epoch.epoch, epoch.line) == (row.epoch, row.line) else None

    def _take(self, unit: Unit, row: ShardRow, epoch: EpochRow, node: str, process: str) -> Claim:
        taken = self.records.put_shard(
            unit,
            row,
            state=ShardState.CLAIMED,
            claim=row.claim + 1,
            claimed_until=micros(unit.now) + int(self.settings.claim_seconds * 1e6),
            verifier=node,
            process=process,
        )
        return Claim(taken.name, taken.claim, taken.report_key, taken.report_digest, epoch.training)

    def _settle(self, unit: Unit, verification: str, claim: int, *, node: str, process: str, error: str) -> None:
        row = self.records.shard(unit, verification, lock=True)
        if row is None:
            raise NotFound(f"verification {verification}")
        mine = (row.claim, row.verifier, row.process) == (claim, node, process)
        state = ShardState.FAILED if error else ShardState.VERIFIED
        if mine and row.state is state and row.error == error:
            return
        if not mine or row.state is not ShardState.CLAIMED:
            raise _fenced(row, claim, node)
        self.records.put_shard(unit, row, state=state, error=error)
        unit.on_commit(lambda: self.wake(row.job))

    def _doubt(self, unit: Unit, row: ShardRow, claim: int, node: str, process: str) -> None:
        """A reader found damage: read the shard in our own pool. Raises FencedOff for a claim that lapsed."""
        if (row.claim, row.verifier) == (claim + 1, OWN_NODE):
            return  # the same report again
        if (row.claim, row.verifier, row.process) != (claim, node, process) or row.state is not ShardState.CLAIMED:
            raise _fenced(row, claim, node)
        if (epoch := self._open_epoch(unit, row)) is not None:
            self._take(unit, row, epoch, OWN_NODE, OWN_PROCESS)
            self._enqueue(unit, row, again=row.claim)

    def _quarantine(self, row: ShardRow, node: str, process: str, error: str) -> None:
        found_by = f"{node}/{process}, reading back what epoch {row.epoch} wrote"
        quarantine.record(
            self.host.blobs, row.job, row.line, row.step, found_by=found_by, problems=[f"{row.name}: {error}"]
        )

    def _read_back(self, context: TaskContext) -> Finish:
        name = context.task.payload.decode()

        def take(unit: Unit) -> Claim | None:
            row = self.records.shard(unit, name, lock=True)
            epoch = None if row is None else self._open_epoch(unit, row)
            if row is None or epoch is None:
                return None
            ours = row.state is ShardState.CLAIMED and row.verifier == OWN_NODE
            if row.state is not ShardState.PENDING and not ours and row.claimed_until > micros(unit.now):
                return None
            if row.state in (ShardState.VERIFIED, ShardState.FAILED):
                return None
            return self._take(unit, row, epoch, OWN_NODE, OWN_PROCESS)

        claim = self.host.units.run(take)
        if claim is None:
            return lambda unit: None
        problems = self._problems(context, claim)
        row = self.host.units.run(lambda unit: self.records.shard(unit, name))
        error = quarantine.reason(problems)
        if error and row is not None and (row.claim, row.verifier) == (claim.epoch, OWN_NODE):
            self._quarantine(row, OWN_NODE, OWN_PROCESS, error)
        return lambda unit: self._settle(unit, name, claim.epoch, node=OWN_NODE, process=OWN_PROCESS, error=error)

    def _problems(self, context: TaskContext, claim: Claim) -> Sequence[str]:
        with tempfile.TemporaryDirectory(prefix="tutti-verify-") as scratch:
            Fetched(Path(scratch)).fetch(self.host.blobs, shard_keys(claim.report_key))
            return context.pool(read_back, Path(scratch), claim.report_key, claim.report_digest, claim.training)

    def _unreadable(self, unit: Unit, task: Task, reason: str) -> None:
        row = self.records.shard(unit, task.payload.decode(), lock=True)
        if row is not None and row.state in (ShardState.PENDING, ShardState.CLAIMED):
            self.records.put_shard(unit, row, state=ShardState.FAILED, error=f"could not be read back: {reason}")
            unit.on_commit(lambda: self.wake(row.job))


def _fenced(row: ShardRow, claim: int, node: str) -> FencedOff:
    return FencedOff(f"{row.name}: claim {claim} of {node} lapsed, claim {row.claim} stands; claim another")


def _require_epochs_own(report: ShardReport, epoch: EpochRow) -> None:
    """Raises Refused when the report is of another shape or training than the epoch's."""
    for what, seen, expected in (
        ("shape", report.shape.shape_digest, epoch.shape_digest),
        ("training", report.training, epoch.training_digest),
    ):
        if seen != expected:
            raise Refused(REPORT_REFUSED, f"{report.name} is of {what} {seen}; epoch {epoch.epoch} has {expected}")
