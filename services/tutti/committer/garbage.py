"""Garbage: what sealed epochs left in the store that no decision names, removed when nobody can ask for it any more.

Nothing of a sealed epoch is ever decided, so what its decisions do not name is named by nothing. It stays for the grace
after the epoch was sealed or last heard of: late shards are evidence of what it computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tutti.backbone.blobs import is_there
from tutti.chassis.service import Host
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import CURVES, REPORTS, SHARDS, ShardName, checkpoint_name, manifest_key, snapshot_of_curve
from tutti.committer.records import DecisionRow, Records
from tutti.committer.settings import CommitterSettings


@dataclass(frozen=True)
class Stored:
    """A shard, a report of one or a curve that is in the store."""

    key: str
    size: int
    name: ShardName
    is_curve: bool = False


@dataclass(frozen=True)
class JobGarbage:
    """The blobs of a job that can be deleted, and when (`due_at`, `now` in microseconds)."""

    job: str
    blobs: tuple[Stored, ...]
    since: int
    due_at: int
    now: int

    @property
    def due(self) -> bool:
        return self.due_at <= self.now

    @property
    def nbytes(self) -> int:
        return sum(each.size for each in self.blobs)


@dataclass(frozen=True)
class References:
    """The reasons to keep blobs: `decided` (line, step, epoch), of which `swept` ones keep only their curve; `visible`
    (line, step) of manifests without a row, for example after a restore; `evidence`, names of late shards that are
    still to be compared.
    """

    decided: Collection[tuple[int, int, int]]
    visible: Collection[tuple[int, int]]
    evidence: Collection[str]
    swept: Collection[tuple[int, int, int]] = ()


def undecided(stored: Iterable[Stored], *, below: int, kept: References) -> list[Stored]:
    """The blobs of epochs `below` the open one that nothing references."""
    return [
        each
        for each in stored
        if each.name.epoch < below
        and (each.name.line, each.name.step, each.name.epoch) not in kept.decided
        and not (each.is_curve and (each.name.line, each.name.step, each.name.epoch) in kept.swept)
        and (each.name.line, each.name.step) not in kept.visible
        and str(each.name) not in kept.evidence
    ]


class Collector:
    def __init__(self, host: Host, records: Records, settings: CommitterSettings) -> None:
        self.host, self.records = host, records
        self.grace = int(settings.grace_seconds * 1e6)

    def due(self, unit: Unit) -> list[str]:
        """Jobs of which something may be left, and the grace is over."""
        return self.records.jobs_with_remains(unit, micros(unit.now) - self.grace)

    def collect(self, job: str) -> JobGarbage:
        """Remove what is due, if anything is; what it was. May be stopped anywhere and called again, by anybody."""
        found = self.find(job)
        if found.due:
            for each in found.blobs:
                self.host.blobs.delete(each.key)
            self.host.units.run(lambda unit: self.records.no_remains(unit, job, found.since))
        return found

    def find(self, job: str) -> JobGarbage:
        """Find the blobs that can be deleted; deletes nothing. Raises CorruptRow rather than misread what was
        decided.
        """

        def look(unit: Unit) -> tuple[int, int]:
            epoch = self.records.epoch(unit, job)
            return epoch.epoch if epoch else 0, self.records.remains_since(unit, job)

        # The epoch is read before the store and the decisions after it: all that is sealed by then was decided by then.
        below, since = self.host.units.run(look)
        stored = [each for each in self._stored(job) if each.name.epoch < below]
        kept = self._kept(job, sorted({(each.name.line, each.name.step) for each in stored}))
        return JobGarbage(
            job,
            tuple(undecided(stored, below=below, kept=kept)),
            since=since,
            due_at=since + self.grace,
            now=micros(self.host.clock.now()),
        )

    def _kept(self, job: str, steps: Sequence[tuple[int, int]]) -> References:
        def look(unit: Unit) -> tuple[list[DecisionRow | None], set[str]]:
            decisions = [self.records.decision(unit, checkpoint_name(job, line, step)) for line, step in steps]
            return decisions, {shard.name for shard in self.records.late_shards(unit, job)}

        decisions, evidence = self.host.units.run(look)
        unknown = [step for step, decision in zip(steps, decisions, strict=True) if decision is None]
        return References(
            decided={(each.line, each.step, each.epoch) for each in decisions if each is not None and not each.swept},
            visible={
                (line, step) for line, step in unknown if is_there(self.host.blobs, manifest_key(job, line, step))
            },
            evidence=evidence,
            swept={(each.line, each.step, each.epoch) for each in decisions if each is not None and each.swept},
        )

    def _stored(self, job: str) -> Iterator[Stored]:
        kinds: tuple[tuple[str, Callable[[str], ShardName]], ...] = (
            (SHARDS, ShardName.of_shard),
            (REPORTS, ShardName.of_report),
            (CURVES, snapshot_of_curve),
        )
        for prefix, name_of in kinds:
            for stat in self.host.blobs.list(f"{prefix}{job}."):
                try:
                    name = name_of(stat.key)
                except CheckpointError:
                    continue
                if name.job == job:
                    yield Stored(stat.key, stat.size, name, is_curve=prefix == CURVES)
