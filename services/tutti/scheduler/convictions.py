"""Convictions: which node and device computed wrong results, and who disagreed with whom.

Promises: a disagreement counts against a place only if that place took part in every disagreement of its audit, as it
would with one faulty rank at a time; two such audits with two partners convict it. What a conviction explains is
forgotten; the rest is kept across attempts and restarts, until an operator clears the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, and_, delete, or_, select

from tutti.chassis.store.tables import declare
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import AuditFailure, Job
from tutti.scheduler.gangs import Seat

Place = tuple[str, str]
"""A node, and a device of it."""


@dataclass(frozen=True)
class Judged:
    """Ranks whose places an audit convicts, and ranks that are only suspects."""

    convicted: tuple[int, ...]
    suspects: tuple[int, ...]


class Convictions:
    def __init__(self, metadata: MetaData) -> None:
        self.table = declare(
            "convictions",
            metadata,
            Column("node", String(200), primary_key=True),
            Column("device", String(200), primary_key=True),
            Column("job", String(200), primary_key=True),
            Column("epoch", BigInteger, primary_key=True),
            Column("step", BigInteger, nullable=False),
            Column("rank", Integer, nullable=False),
        )
        self.disagreements = declare(
            "disagreements",
            metadata,
            Column("node", String(200), primary_key=True),
            Column("device", String(200), primary_key=True),
            Column("job", String(200), primary_key=True),
            Column("epoch", BigInteger, primary_key=True),
            Column("partner_node", String(200), primary_key=True),
            Column("partner_device", String(200), primary_key=True),
        )

    def judge(self, unit: Unit, job: Job, audit: AuditFailure, seats: Mapping[int, Seat]) -> Judged:
        """Record the finding of an audit, once for an attempt, and return who is convicted by it."""
        pairs = [(each.rank, each.witness) for each in audit.disagreements]
        places = {rank: (seat.node, seat.device) for rank, seat in seats.items()}
        self._record(unit, job, [(places[a], places[b]) for a, b in pairs if a in places and b in places])
        suspects = sorted({rank for pair in pairs for rank in pair})
        convicted = {*audit.convicted, *(rank for rank in suspects if self._contradicted(unit, places.get(rank)))}
        new = {places[rank]: rank for rank in sorted(convicted, reverse=True) if rank in places}
        for place, rank in new.items():
            node, device = place
            row = {"node": node, "device": device, "job": job.name, "epoch": job.epoch}
            unit.tx.insert(self.table, [{**row, "step": audit.step, "rank": rank}])
            self._forget(unit, place)
        explained = {rank for rank in suspects if places.get(rank) in new}
        left = {rank for pair in pairs if not explained & set(pair) for rank in pair}
        return Judged(tuple(sorted(convicted | explained)), tuple(sorted(left)))

    def count(self, unit: Unit, node: str) -> int:
        """The number of attempts that ended with a conviction of this node."""
        rows = select(self.table.c.job, self.table.c.epoch).where(self.table.c.node == node).distinct()
        return len(unit.tx.execute(rows).all())

    def suspects(self, unit: Unit) -> list[str]:
        """The nodes with a disagreement that nothing has settled, in name order."""
        rows = select(self.disagreements.c.node).distinct().order_by(self.disagreements.c.node)
        return list(unit.tx.execute(rows).scalars())

    def clear(self, unit: Unit, node: str) -> None:
        """Forget what is held against a node."""
        unit.tx.execute(delete(self.table).where(self.table.c.node == node))
        table = self.disagreements
        unit.tx.execute(delete(table).where(or_(table.c.node == node, table.c.partner_node == node)))

    def _record(self, unit: Unit, job: Job, pairs: list[tuple[Place, Place]]) -> None:
        """Record the disagreements of each place that is part of all of them, with its partners."""
        apart = [(one, other) for one, other in pairs if one != other]
        for place in {place for pair in apart for place in pair}:
            if not all(place in pair for pair in apart):
                continue
            for partner in {each for pair in apart for each in pair} - {place}:
                row = {"node": place[0], "device": place[1], "job": job.name, "epoch": job.epoch}
                partner_row = {"partner_node": partner[0], "partner_device": partner[1]}
                unit.tx.insert(self.disagreements, [{**row, **partner_row}])

    def _contradicted(self, unit: Unit, place: Place | None) -> bool:
        """True if the place disagreed in two audits with two partners."""
        if place is None:
            return False
        table = self.disagreements
        rows = unit.tx.execute(select(table).where(table.c.node == place[0], table.c.device == place[1])).all()
        found = [((row.job, row.epoch), (row.partner_node, row.partner_device)) for row in rows]
        return any(one[0] != other[0] and one[1] != other[1] for one in found for other in found)

    def _forget(self, unit: Unit, place: Place) -> None:
        """The disagreements that a conviction explains count against nobody else."""
        table = self.disagreements
        own = and_(table.c.node == place[0], table.c.device == place[1])
        partner = and_(table.c.partner_node == place[0], table.c.partner_device == place[1])
        unit.tx.execute(delete(table).where(or_(own, partner)))
