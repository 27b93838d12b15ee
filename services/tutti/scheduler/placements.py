"""Placements: which ranks of a job are on which node, one row per node.

Promises: a topology keeps the placement of its newest epoch; a node holds its ranks until it releases the epoch; no
event carries a placement, so a gang can have any number of ranks.
"""

import json
from collections.abc import Iterable, Sequence
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
    insert,
    select,
    update,
)

from tutti.chassis.store.tables import declare
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import Placed
from tutti.contracts.scheduler.v1 import NODE_STATE_LOST, Job
from tutti.scheduler.gangs import Seat

SHOWN = 8  # names of nodes or ranks that a text lists before it only counts


class Placements:
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
        unit.tx.execute(insert(self.table), rows)

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


def node_words(nodes: Sequence[str]) -> str:
    """The names where they are few, else the first ones and the number of all."""
    shown = ", ".join(nodes[:SHOWN])
    return shown if len(nodes) <= SHOWN else f"{shown} and {len(nodes) - SHOWN:,} more"
