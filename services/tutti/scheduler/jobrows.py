"""Jobs as rows: the resource, its history and its placements, each in a table beside it.

Promises: a line of history that a step of the job adds is recorded with the job, in the same transaction; the newest
lines are kept. A topology keeps the placement of its newest epoch; a node holds its ranks until it releases the epoch.
Neither the job's row nor its events carry either, so a gang can have any number of ranks.
"""

import json
from collections.abc import Iterable
from itertools import groupby

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    delete,
    func,
    select,
    update,
)

from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import declare, micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import Placed
from tutti.contracts.scheduler.v1 import NODE_STATE_LOST, Job
from tutti.scheduler.gangs import Seat
from tutti.scheduler.jobs import HISTORY_LINES


class Jobs(Resource[Job]):
    """`history` of a job that is put holds the new lines; versions before 0.2 left all lines in the row."""

    def __init__(self, metadata: MetaData) -> None:
        super().__init__(metadata, "jobs", Job, {"state": lambda job: int(job.state)})
        self.lines = declare(
            "job_history",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("number", BigInteger, primary_key=True),
            Column("line", Text, nullable=False),
            Column("at", BigInteger, nullable=False, server_default="0"),
        )

    def put(self, unit: Unit, message: Job) -> Job:
        if not message.history:
            return super().put(unit, message)
        job = Job()
        job.CopyFrom(message)
        rows = [
            {"job": job.name, "number": number, "line": line, "at": micros(unit.now)}
            for number, line in enumerate(job.history, start=job.history_lines + 1)
        ]
        job.history_lines += len(rows)
        del job.history[:]
        put = super().put(unit, job)
        forgotten = self.lines.c.number <= job.history_lines - HISTORY_LINES
        unit.tx.execute(delete(self.lines).where(self.lines.c.job == job.name, forgotten))
        unit.tx.insert(self.lines, rows)
        return put

    def history(self, unit: Unit, job: Job) -> list[str]:
        """The newest lines, the newest last."""
        rows = select(self.lines.c.line).where(self.lines.c.job == job.name).order_by(self.lines.c.number)
        return [*unit.tx.execute(rows).scalars(), *job.history]

    def newest_line(self, unit: Unit, job: Job) -> int:
        """Return the time of the newest line of a job's history, in microseconds; 0 for none."""
        newest = select(func.max(self.lines.c.at)).where(self.lines.c.job == job.name)
        return unit.tx.execute(newest).scalar() or 0

    def with_history(self, unit: Unit, job: Job) -> Job:
        """Return the job with its history, and the times of its lines."""
        rows = select(self.lines).where(self.lines.c.job == job.name).order_by(self.lines.c.number)
        found = [(row.line, row.at) for row in unit.tx.execute(rows)] + [(line, 0) for line in job.history]
        del job.history[:]
        for line, at in found:
            job.history.append(line)
            job.history_times.add().FromMicroseconds(at)
        return job


class Placements:
    """The ranks of a job on each node: one row per node."""

    def __init__(self, metadata: MetaData) -> None:
        self.table = declare(
            "placements",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("topology_version", BigInteger, primary_key=True),
            Column("node", String(200), primary_key=True),
            Column("epoch", BigInteger, nullable=False),
            Column("first_rank", Integer, nullable=False),
            Column("devices", Text, nullable=False),
            Column("held", Boolean, nullable=False),
        )

    def record(self, unit: Unit, job: Job, seats: Iterable[Seat]) -> None:
        """Replace the placement of the job's topology. The ranks of a node are consecutive."""
        unit.tx.execute(delete(self.table).where(*self._of(job.name, job.topology_version)))
        rows = []
        for node, grouped in groupby(seats, key=lambda seat: seat.node):
            own = list(grouped)
            rows.append(
                {
                    "job": job.name,
                    "topology_version": job.topology_version,
                    "node": node,
                    "epoch": job.epoch,
                    "first_rank": own[0].rank,
                    "devices": json.dumps([seat.device for seat in own]),
                    "held": True,
                }
            )
        unit.tx.insert(self.table, rows)

    def seats(self, unit: Unit, job: str, topology_version: int) -> tuple[Seat, ...]:
        """The seats of a topology in rank order; none when it was last placed by a version before 0.2."""
        table = self.table
        rows = select(table.c.node, table.c.first_rank, table.c.devices).where(*self._of(job, topology_version))
        return tuple(
            Seat(row.first_rank + at, row.node, device)
            for row in unit.tx.execute(rows.order_by(table.c.first_rank)).all()
            for at, device in enumerate(json.loads(row.devices))
        )

    def nodes(self, unit: Unit, job: Job) -> set[str]:
        """The nodes of the job's newest placement under its topology."""
        if job.placement:
            return {placed.node for placed in job.placement}
        rows = select(self.table.c.node).where(*self._of(job.name, job.topology_version))
        return set(unit.tx.execute(rows).scalars())

    def holders(self, unit: Unit, job: Job) -> list[str]:
        """The nodes that hold ranks of the job's epoch, in name order."""
        if job.placement:
            return sorted({placed.node for placed in job.placement})
        return list(unit.tx.execute(self._held(job)).scalars())

    def heard_holders(self, unit: Unit, job: Job, nodes: Table) -> list[str]:
        """Those holders that are not lost, in name order."""
        there = select(nodes.c.name).where(nodes.c.state != int(NODE_STATE_LOST), nodes.c.name.in_(self._held(job)))
        return list(unit.tx.execute(there.order_by(nodes.c.name)).scalars())

    def release(self, unit: Unit, node: str, job: str, epoch: int) -> None:
        """The node holds nothing of this epoch any more."""
        where = (self.table.c.job == job, self.table.c.epoch == epoch, self.table.c.node == node)
        unit.tx.execute(update(self.table).where(*where).values(held=False))

    def _held(self, job: Job) -> Select[tuple[str]]:
        table = self.table
        where = (table.c.job == job.name, table.c.epoch == job.epoch, table.c.held)
        return select(table.c.node).where(*where).order_by(table.c.node)

    def _of(self, job: str, topology_version: int) -> tuple[ColumnElement[bool], ...]:
        return (self.table.c.job == job, self.table.c.topology_version == topology_version)


def placed(seats: Iterable[Seat]) -> list[Placed]:
    """The seats as the contract has them."""
    return [Placed(rank=seat.rank, node=seat.node, device=seat.device) for seat in seats]


def seats_of(placement: Iterable[Placed]) -> tuple[Seat, ...]:
    return tuple(Seat(each.rank, each.node, each.device) for each in placement)
