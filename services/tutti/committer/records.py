"""Reading and writing the committer's rows: one dataclass a row, one function a question.

Every function works inside a unit; a row that decides is checked against its digest as it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, delete, func, literal, select, update

from tutti.chassis.errors import CorruptRow, NotFound
from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.keys import ShardName
from tutti.committer.decision import Progress, ShardState
from tutti.committer.epochs import OpenEpoch
from tutti.committer.tables import Tables, checked, sealed


@dataclass(frozen=True)
class EpochRow:
    """The open epoch of a job; `base` is the newest step that was decided on its line, or resumed from."""

    job: str
    epoch: int
    line: int
    nodes: int
    steps: int
    base: int
    parent: str
    ranks: int
    shape_digest: str
    training: str
    training_digest: str
    dataset_digest: str
    request_digest: str
    opened_at: int
    response: bytes

    @property
    def rules(self) -> OpenEpoch:
        return OpenEpoch(self.epoch, self.line, self.training_digest, self.dataset_digest, self.request_digest)


@dataclass(frozen=True)
class ShardRow:
    """A reported shard, and who reads it back. `name` is that of the verification too."""

    name: str
    job: str
    line: int
    step: int
    epoch: int
    rank: int
    node: str
    report_key: str
    report_digest: str
    state: ShardState
    reported_at: int
    claim: int = 0
    claimed_until: int = 0
    verifier: str = ""
    process: str = ""
    error: str = ""

    @property
    def progress(self) -> Progress:
        return Progress(self.step, self.rank, self.state)

    @property
    def shard(self) -> ShardName:
        return ShardName(self.job, self.line, self.step, self.epoch, self.rank)


@dataclass(frozen=True)
class DecisionRow:
    """One decided checkpoint with the exact bytes of its manifest."""

    name: str
    job: str
    line: int
    step: int
    epoch: int
    state_digest: str
    manifest_key: str
    manifest: bytes
    published: int = 0
    pruned_at: int | None = None
    swept: int = 0


class Records:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def epoch(self, unit: Unit, job: str, *, lock: bool = False) -> EpochRow | None:
        table = self.tables.epochs
        row = unit.tx.execute(_epoch(table, lock=lock), {"wanted": job}).first()
        return None if row is None else EpochRow(**_values(checked(table, row)))

    def locked_epoch(self, unit: Unit, job: str) -> EpochRow:
        """Raises NotFound when no epoch was ever opened for the job."""
        found = self.epoch(unit, job, lock=True)
        if found is None:
            raise NotFound(f"an open epoch of jobs/{job}")
        return found

    def put_epoch(self, unit: Unit, row: EpochRow) -> None:
        """Write the row that this unit locked, or the first one of its job."""
        table, values = self.tables.epochs, sealed(self.tables.epochs, asdict(row))
        if unit.tx.execute(update(table).where(table.c.job == row.job).values(values)).rowcount == 0:
            unit.insert_new(table, [values])

    def placement(self, unit: Unit, job: str, epoch: int) -> tuple[str, ...]:
        """The node of each rank of the epoch; empty if the scheduler named none. Raises CorruptRow."""
        table = self.tables.placements
        row = unit.tx.execute(_placement(table), {"wanted": job, "epoch": epoch}).first()
        return () if row is None else tuple(checked(table, row).nodes.split())

    def put_placement(self, unit: Unit, job: str, epoch: int, nodes: Sequence[str]) -> None:
        """Replace the placement of the job's epoch before, of which only the nodes are kept."""
        table, holders = self.tables.placements, self.tables.holders
        unit.tx.execute(delete(table).where(table.c.job == job))
        unit.tx.execute(delete(holders).where(holders.c.job == job, holders.c.epoch == epoch))
        if nodes:
            unit.insert_new(table, [sealed(table, {"job": job, "epoch": epoch, "nodes": " ".join(nodes)})])
        held = {"job": job, "epoch": epoch, "nodes": " ".join(sorted(set(nodes)))}
        unit.insert_new(holders, [sealed(holders, held)])

    def held(self, unit: Unit, open_: EpochRow, epoch: int, node: str) -> bool:
        """Return whether a node held a rank of an epoch, which is the open one of its job or was sealed.

        True for epochs of a scheduler that named no nodes. Raises CorruptRow.
        """
        found = list[tuple[str, ...]]()
        for table in (self.tables.holders, self.tables.placements):  # of version 0.2.0 the open epoch has the latter
            mine = select(table).where(table.c.job == open_.job, table.c.epoch == epoch)
            found += [tuple(checked(table, row).nodes.split()) for row in unit.tx.execute(mine).all()]
        unnamed = not found and epoch == open_.epoch
        return unnamed or any(not nodes or node in nodes for nodes in found)

    def decided_until(self, unit: Unit, job: str, line: int, *epochs: ColumnElement[bool]) -> int:
        """Return the newest step of a line that was decided from shards of these epochs; 0 if there is none."""
        table = self.tables.decisions
        query = select(func.max(table.c.step)).where(table.c.job == job, table.c.line == line, *epochs)
        return unit.tx.execute(query).scalar() or 0

    def steps_of(self, unit: Unit, open_: EpochRow, epoch: int, line: int) -> tuple[int, int]:
        """Return two steps of a line: what an epoch made, or makes while it is open, is after the first up to the last.

        Of a sealed epoch only the decided steps count: the next epoch makes the others again.
        """
        of = self.tables.decisions.c.epoch
        first = self.decided_until(unit, open_.job, line, of < epoch)
        if (epoch, line) == (open_.epoch, open_.line):
            return first, open_.steps
        return first, self.decided_until(unit, open_.job, line, of == epoch)

    def jobs(self, unit: Unit) -> list[str]:
        return list(unit.tx.execute(select(self.tables.epochs.c.job).order_by(self.tables.epochs.c.job)).scalars())

    def jobs_that_name(self, unit: Unit, checkpoint: str) -> list[str]:
        """The jobs whose training names a checkpoint."""
        epochs = self.tables.epochs
        query = select(epochs.c.job).where(epochs.c.training.contains(f'"{checkpoint}"'))
        return list(unit.tx.execute(query.order_by(epochs.c.job)).scalars())

    def unfinished_jobs(self, unit: Unit) -> list[str]:
        """Jobs that have not decided their last step, or not published or swept all that was decided."""
        epochs, decisions = self.tables.epochs, self.tables.decisions
        behind = unit.tx.execute(select(epochs.c.job).where(epochs.c.base < epochs.c.steps)).scalars()
        pending = and_(decisions.c.pruned_at.is_not(None), decisions.c.swept == 0)
        open_ = unit.tx.execute(select(decisions.c.job).where((decisions.c.published == 0) | pending)).scalars()
        return sorted({*behind, *open_})

    def is_heard_of(self, unit: Unit, job: str, since: int) -> bool:
        """True if the job's epoch was opened, or anything of it was reported, after `since`."""
        epoch, shards = self.epoch(unit, job), self.tables.shards
        if epoch is None or epoch.opened_at > since:
            return epoch is not None
        found = select(shards.c.name).where(
            shards.c.job == job, shards.c.epoch == epoch.epoch, shards.c.reported_at > since
        )
        return unit.tx.execute(found.limit(1)).first() is not None

    def open_jobs(self, unit: Unit) -> list[str]:
        """Unfinished jobs, and those whose late shards are still to be compared with what was decided."""
        shards = self.tables.shards
        late = unit.tx.execute(select(shards.c.job).where(shards.c.state == ShardState.LATE.value)).scalars()
        return sorted({*self.unfinished_jobs(unit), *late})

    def shard(self, unit: Unit, name: str, *, lock: bool = False) -> ShardRow | None:
        table = self.tables.shards
        query = select(table).where(table.c.name == name)
        row = unit.tx.execute(query.with_for_update() if lock else query).first()
        return None if row is None else _shard(row)

    def shards(self, unit: Unit, job: str, epoch: int, line: int, *, step: int | None = None) -> list[ShardRow]:
        table = self.tables.shards
        wanted = [table.c.job == job, table.c.epoch == epoch, table.c.line == line]
        if step is not None:
            wanted.append(table.c.step == step)
        return self._shards(unit, *wanted)

    def shards_after(self, unit: Unit, row: EpochRow) -> list[ShardRow]:
        """Shards of the open epoch that no decision covers yet."""
        table = self.tables.shards
        return self._shards(
            unit,
            table.c.job == row.job,
            table.c.epoch == row.epoch,
            table.c.line == row.line,
            table.c.step > row.base,
            table.c.state != ShardState.LATE.value,
        )

    def late_shards(self, unit: Unit, job: str) -> list[ShardRow]:
        table = self.tables.shards
        return self._shards(unit, table.c.job == job, table.c.state == ShardState.LATE.value)

    def claimable(self, unit: Unit, reader: str, now: int) -> list[ShardRow]:
        """Some shards of jobs of the reader that wait for one and were written elsewhere, the oldest steps first."""
        query = _claimable(self.tables.shards, self.tables.placements, skip_locked=unit.tx.skip_locked)
        values = {"reader": reader, "among": f" {reader} ", "now": now}
        return [_shard(row) for row in unit.tx.execute(query, values).all()]

    def add_shard(self, unit: Unit, row: ShardRow) -> None:
        unit.insert_new(self.tables.shards, [{**asdict(row), "state": row.state.value}])

    def put_shard(self, unit: Unit, row: ShardRow, **changes: Any) -> ShardRow:
        changed = replace(row, **changes)
        table = self.tables.shards
        unit.tx.execute(
            update(table).where(table.c.name == row.name).values({**asdict(changed), "state": changed.state.value})
        )
        return changed

    def forget_sealed(self, unit: Unit, job: str, epoch: int) -> None:
        """Drop what earlier epochs reported and nobody needs: all but the evidence of late ones."""
        table = self.tables.shards
        unit.tx.execute(
            delete(table).where(table.c.job == job, table.c.epoch < epoch, table.c.state != ShardState.LATE.value)
        )
        self.note_remains(unit, job)

    def note_remains(self, unit: Unit, job: str) -> None:
        """Sealed epochs of the job may have blobs in the store that nothing names; the last word of them is now."""
        table, values = self.tables.remains, {"since": micros(unit.now)}
        if unit.tx.execute(update(table).where(table.c.job == job).values(values)).rowcount == 0:
            unit.insert_new(table, [{"job": job, **values}])

    def remains_since(self, unit: Unit, job: str) -> int:
        """0 when none are known of."""
        table = self.tables.remains
        return unit.tx.execute(select(table.c.since).where(table.c.job == job)).scalar() or 0

    def jobs_with_remains(self, unit: Unit, before: int) -> list[str]:
        table = self.tables.remains
        return list(unit.tx.execute(select(table.c.job).where(table.c.since <= before).order_by(table.c.job)).scalars())

    def no_remains(self, unit: Unit, job: str, since: int) -> None:
        """All were removed that were known of at `since`; later ones stay noted."""
        table = self.tables.remains
        unit.tx.execute(delete(table).where(table.c.job == job, table.c.since == since))

    def forget_shards(self, unit: Unit, names: Iterable[str]) -> None:
        table = self.tables.shards
        unit.tx.execute(delete(table).where(table.c.name.in_(list(names))))

    def decision(self, unit: Unit, name: str) -> DecisionRow | None:
        table = self.tables.decisions
        row = unit.tx.execute(select(table).where(table.c.name == name)).first()
        return None if row is None else DecisionRow(**_values(checked(table, row)))

    def decided_steps(self, unit: Unit, job: str, line: int) -> list[int]:
        table = self.tables.decisions
        query = select(table.c.step).where(table.c.job == job, table.c.line == line).order_by(table.c.step)
        return list(unit.tx.execute(query).scalars())

    def unpublished(self, unit: Unit, job: str) -> list[DecisionRow]:
        table = self.tables.decisions
        return self._decisions(unit, table.c.job == job, table.c.published == 0)

    def unswept(self, unit: Unit, job: str, before: int) -> list[DecisionRow]:
        """Pruned so long ago that their bytes may go."""
        table = self.tables.decisions
        return self._decisions(unit, table.c.job == job, table.c.pruned_at <= before, table.c.swept == 0)

    def decisions(self, unit: Unit) -> list[DecisionRow]:
        return self._decisions(unit)

    def add_decision(self, unit: Unit, row: DecisionRow) -> None:
        unit.insert_new(self.tables.decisions, [sealed(self.tables.decisions, asdict(row))])

    def mark_decision(self, unit: Unit, name: str, **marks: int | None) -> None:
        """Set `published`, `pruned_at` or `swept`: what is not under the row's digest."""
        table = self.tables.decisions
        unit.tx.execute(update(table).where(table.c.name == name).values(**marks))

    def add_divergence(self, unit: Unit, name: str, epoch: int, state_digest: str) -> bool:
        """False when it was recorded before."""
        table = self.tables.divergences
        found = select(table.c.epoch).where(table.c.name == name, table.c.epoch == epoch)
        if unit.tx.execute(found).first() is not None:
            return False
        unit.insert_new(table, [{"name": name, "epoch": epoch, "state_digest": state_digest}])
        return True

    def damaged(self, unit: Unit) -> list[str]:
        """List the damaged rows that decide, in words; reads every row."""
        found = []
        for table in (self.tables.epochs, self.tables.placements, self.tables.holders, self.tables.decisions):
            for row in unit.tx.execute(select(table)).all():
                try:
                    checked(table, row)
                except CorruptRow as problem:
                    found.append(problem.message)
        return found

    def _shards(self, unit: Unit, *wanted: ColumnElement[bool]) -> list[ShardRow]:
        table = self.tables.shards
        query = select(table).where(*wanted).order_by(table.c.step, table.c.rank, table.c.name)
        return [_shard(row) for row in unit.tx.execute(query).all()]

    def _decisions(self, unit: Unit, *wanted: ColumnElement[bool]) -> list[DecisionRow]:
        table = self.tables.decisions
        query = select(table).where(*wanted).order_by(table.c.job, table.c.line, table.c.step)
        return [DecisionRow(**_values(checked(table, row))) for row in unit.tx.execute(query).all()]


@prepared
def _epoch(epochs: Table, *, lock: bool) -> Select[Any]:
    query = select(epochs).where(epochs.c.job == bindparam("wanted"))
    return query.with_for_update() if lock else query


@prepared
def _placement(placements: Table) -> Select[Any]:
    return select(placements).where(placements.c.job == bindparam("wanted"), placements.c.epoch == bindparam("epoch"))


@prepared
def _claimable(shards: Table, placements: Table, *, skip_locked: bool) -> Select[Any]:
    lapsed = and_(shards.c.state == ShardState.CLAIMED.value, shards.c.claimed_until <= bindparam("now"))
    nodes = literal(" ").concat(placements.c.nodes).concat(" ")
    others = select(placements.c.job).where(func.replace(nodes, bindparam("among"), "") == nodes)
    return (
        select(shards)
        .where(shards.c.job.not_in(others))
        .where(shards.c.node != bindparam("reader"), (shards.c.state == ShardState.PENDING.value) | lapsed)
        .order_by(shards.c.step, shards.c.name)
        .limit(16)
        .with_for_update(skip_locked=skip_locked)
    )


def line_name(job: str, line: int) -> str:
    """The name of the resource, `lines/{job}/{line}`."""
    return f"lines/{job}/{line}"


def _values(row: Any) -> dict[str, Any]:
    values = {key: bytes(value) if isinstance(value, memoryview) else value for key, value in row._mapping.items()}
    values.pop("digest")
    return values


def _shard(row: Any) -> ShardRow:
    return ShardRow(**{**row._mapping, "state": ShardState(row.state)})
