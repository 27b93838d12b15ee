"""What the scheduler keeps: its resources, and rows that change too often to be events.

Promises: every row belongs to one node or to one job; a row of an earlier epoch is never read as one of the current.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    insert,
    select,
    update,
)

from tutti.chassis.resources import Resource
from tutti.chassis.tables import declare, micros
from tutti.chassis.unit import Unit
from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_FINISHED,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    RANK_EVENT_UNSPECIFIED,
    Job,
    Node,
    RankEvent,
    Topology,
    Transition,
)
from tutti.scheduler.gangs import Seat
from tutti.scheduler.jobs import Crossed


@dataclass(frozen=True)
class Agent:
    """What is known of a node's agent besides the node: when it was heard (microseconds), whether it is drained."""

    node: str
    heard_at: int
    draining: bool


@dataclass(frozen=True)
class Attempt:
    """The current attempt of a job. Times in microseconds, 0: not yet."""

    job: str
    epoch: int
    resume_step: int
    placed_at: int
    spawned_at: int
    stopped_at: int
    finished_at: int
    persisted_at: int
    step: int
    loss: float
    bits_per_byte: float | None

    @property
    def crossed(self) -> Crossed:
        return Crossed(self.step, self.loss, self.bits_per_byte)


@dataclass(frozen=True)
class RankRow:
    rank: int
    node: str
    event: RankEvent.ValueType

    @property
    def spawned(self) -> bool:
        return self.event != RANK_EVENT_UNSPECIFIED

    @property
    def ready(self) -> bool:
        return self.event in (RANK_EVENT_READY, RANK_EVENT_FINISHED)

    @property
    def finished(self) -> bool:
        return self.event == RANK_EVENT_FINISHED

    @property
    def lost(self) -> bool:
        return self.event == RANK_EVENT_LOST


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.jobs: Resource[Job] = Resource(metadata, "jobs", Job, {"state": lambda job: int(job.state)})
        self.nodes: Resource[Node] = Resource(metadata, "nodes", Node, {"state": lambda node: int(node.state)})
        self.transitions: Resource[Transition] = Resource(
            metadata,
            "transitions",
            Transition,
            {"job": lambda transition: transition.job, "state": lambda transition: int(transition.state)},
        )
        self.topologies: Resource[Topology] = Resource(
            metadata, "topologies", Topology, {"job": lambda topology: topology.job}
        )
        self.agents = declare(
            "agents",
            metadata,
            Column("node", String(200), primary_key=True),
            Column("heard_at", BigInteger, nullable=False),
            Column("draining", Boolean, nullable=False),
        )
        self.attempts = declare(
            "attempts",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("epoch", BigInteger, nullable=False),
            Column("resume_step", BigInteger, nullable=False),
            Column("placed_at", BigInteger, nullable=False),
            Column("spawned_at", BigInteger, nullable=False, default=0),
            Column("stopped_at", BigInteger, nullable=False, default=0),
            Column("finished_at", BigInteger, nullable=False, default=0),
            Column("persisted_at", BigInteger, nullable=False, default=0),
            Column("step", BigInteger, nullable=False),
            Column("loss", Float(53), nullable=False, default=0.0),
            Column("bits_per_byte", Float(53)),
        )
        self.ranks = declare(
            "ranks",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("rank", Integer, primary_key=True),
            Column("node", String(200), nullable=False),
            Column("event", Integer, nullable=False),
        )

    @property
    def rows(self) -> tuple[Table, ...]:
        return (self.agents, self.attempts, self.ranks)

    def transition_of_request(self, unit: Unit, request_id: str) -> str:
        """The name of the transition that this request recorded, or ""."""
        table = self.transitions.table
        if not request_id:
            return ""
        row = unit.tx.execute(select(table.c.name).where(table.c.request_id == request_id)).first()
        return str(row.name) if row else ""

    def agent(self, unit: Unit, node: str) -> Agent | None:
        row = unit.tx.execute(select(self.agents).where(self.agents.c.node == node)).first()
        return Agent(**row._mapping) if row else None

    def heard(self, unit: Unit, node: str) -> None:
        """The agent of a node gave a word now."""
        changed = unit.tx.execute(
            update(self.agents).where(self.agents.c.node == node).values(heard_at=micros(unit.now))
        )
        if changed.rowcount == 0:
            unit.tx.execute(insert(self.agents).values(node=node, heard_at=micros(unit.now), draining=False))

    def drain(self, unit: Unit, node: str, *, draining: bool) -> None:
        unit.tx.execute(update(self.agents).where(self.agents.c.node == node).values(draining=draining))

    def begin(self, unit: Unit, job: Job, seats: tuple[Seat, ...], now: datetime) -> None:
        """Forget the attempt before and record this one."""
        for table in (self.attempts, self.ranks):
            unit.tx.execute(delete(table).where(table.c.job == job.name))
        unit.tx.execute(
            insert(self.attempts).values(
                job=job.name, epoch=job.epoch, resume_step=job.step, placed_at=micros(now), step=job.step
            )
        )
        unit.tx.execute(
            insert(self.ranks),
            [{"job": job.name, "rank": s.rank, "node": s.node, "event": RANK_EVENT_UNSPECIFIED} for s in seats],
        )

    def attempt(self, unit: Unit, job: Job) -> Attempt | None:
        """The attempt of the job's current epoch, once it is placed."""
        found = select(self.attempts).where(self.attempts.c.job == job.name, self.attempts.c.epoch == job.epoch)
        row = unit.tx.execute(found).first()
        return Attempt(**row._mapping) if row else None

    def note(self, unit: Unit, job: Job, values: Mapping[str, Any]) -> None:
        """Change columns of the current attempt."""
        where = (self.attempts.c.job == job.name, self.attempts.c.epoch == job.epoch)
        unit.tx.execute(update(self.attempts).where(*where).values(**values))

    def gang(self, unit: Unit, job: Job) -> list[RankRow]:
        """The ranks of the current attempt, in order."""
        found = select(self.ranks).where(self.ranks.c.job == job.name).order_by(self.ranks.c.rank)
        return [RankRow(row.rank, row.node, RankEvent.ValueType(row.event)) for row in unit.tx.execute(found).all()]

    def report(self, unit: Unit, job: Job, rank: int, event: RankEvent.ValueType) -> None:
        where = (self.ranks.c.job == job.name, self.ranks.c.rank == rank)
        unit.tx.execute(update(self.ranks).where(*where).values(event=int(event)))
