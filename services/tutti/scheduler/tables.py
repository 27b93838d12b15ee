"""Tables of the scheduler: its resources, and rows that change too often to be events.

Promises: every row belongs to one node or to one job; a row of an earlier epoch is never read as one of the current.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    delete,
    insert,
    select,
    true,
    update,
)

from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import declare, micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_RUNNING,
    RANK_EVENT_FINISHED,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    RANK_EVENT_UNSPECIFIED,
    Job,
    Node,
    NodeState,
    RankEvent,
    ReportStallRequest,
    Topology,
    Transition,
)
from tutti.scheduler.convictions import Convictions
from tutti.scheduler.gangs import SHOWN, Seat
from tutti.scheduler.jobrows import Jobs, Placements, placed
from tutti.scheduler.jobs import Crossed
from tutti.scheduler.trainings import tokens_of_step


@dataclass(frozen=True)
class Agent:
    """The state of a node's agent besides the node: the time of its last heartbeat (microseconds), and whether it is
    drained.

    `folder` is the id of its state folder; empty for an agent before 0.3.
    """

    node: str
    heard_at: int
    draining: bool
    folder: str = ""


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
    first_step: int
    first_at: int
    step_at: int
    skipped: int
    skipped_in_a_row: int
    worked_at: int

    @property
    def steps_per_second(self) -> float | None:
        """The mean since the first step that was reported; None before there are two."""
        seconds = (self.step_at - self.first_at) / 1e6
        return (self.step - self.first_step) / seconds if seconds > 0 and self.step > self.first_step else None

    @property
    def crossed(self) -> Crossed:
        return Crossed(self.step, self.loss, self.bits_per_byte, self.skipped, self.skipped_in_a_row)


SPAWNED = tuple(RankEvent.ValueType(event) for event in RankEvent.values() if event != RANK_EVENT_UNSPECIFIED)
READY = (RANK_EVENT_READY, RANK_EVENT_FINISHED)


@dataclass(frozen=True)
class RankRow:
    rank: int
    node: str
    event: RankEvent.ValueType

    @property
    def spawned(self) -> bool:
        return self.event in SPAWNED

    @property
    def finished(self) -> bool:
        return self.event == RANK_EVENT_FINISHED

    @property
    def lost(self) -> bool:
        return self.event == RANK_EVENT_LOST


@dataclass(frozen=True)
class StallReport:
    """The report of a node about a stall; `at` is when its first one arrived (microseconds)."""

    node: str
    at: int
    request: ReportStallRequest


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.jobs = Jobs(metadata)
        self.placements = Placements(metadata)
        self.convictions = Convictions(metadata)
        self.nodes: Resource[Node] = Resource(metadata, "nodes", Node, {"state": lambda node: int(node.state)})
        self.transitions: Resource[Transition] = Resource(
            metadata,
            "transitions",
            Transition,
            {"job": lambda transition: transition.job, "state": lambda transition: int(transition.state)},
            numbered=True,
        )
        self.topologies: Resource[Topology] = Resource(
            metadata, "topologies", Topology, {"job": lambda topology: topology.job}, numbered=True
        )
        self.agents = declare(
            "agents",
            metadata,
            Column("node", String(200), primary_key=True),
            Column("heard_at", BigInteger, nullable=False),
            Column("draining", Boolean, nullable=False),
            Column("folder", String(200), nullable=False, server_default=""),
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
            Column("first_step", BigInteger, nullable=False, server_default="0"),
            Column("first_at", BigInteger, nullable=False, server_default="0"),
            Column("step_at", BigInteger, nullable=False, server_default="0"),
            Column("skipped", BigInteger, nullable=False, server_default="0"),
            Column("skipped_in_a_row", BigInteger, nullable=False, server_default="0"),
            Column("worked_at", BigInteger, nullable=False, server_default="0"),
        )
        self.ranks = declare(
            "ranks",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("rank", Integer, primary_key=True),
            Column("node", String(200), nullable=False),
            Column("event", Integer, nullable=False),
            Index("ranks_on_node", "job", "node"),
        )
        self.stalls = declare(
            "stall_reports",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("node", String(200), primary_key=True),
            Column("epoch", BigInteger, nullable=False),
            Column("at", BigInteger, nullable=False),
            Column("report", LargeBinary, nullable=False),
        )

    @property
    def rows(self) -> tuple[Table, ...]:
        told = (self.convictions.table, self.convictions.disagreements)
        return (self.agents, self.attempts, self.ranks, self.stalls, self.jobs.lines, self.placements.table, *told)

    def with_progress(self, unit: Unit, job: Job) -> Job:
        """Return the job as GetJob does: with its history, how fast it goes and how long that takes."""
        attempt = self.attempt(unit, job)
        if attempt is not None and (rate := attempt.steps_per_second):
            job.steps_per_second = rate
            job.tokens_per_second = rate * tokens_of_step(job)
            if job.state == JOB_STATE_RUNNING:
                job.seconds_left = max(0, job.spec.steps - attempt.step) / rate
        return self.jobs.with_history(unit, job)

    def with_placement(self, unit: Unit, topology: Topology) -> Topology:
        """The topology as GetTopology returns it."""
        if not topology.placement:
            seats = self.placements.seats(unit, topology.job, topology.version)
            topology.placement.extend(placed(seats))
        return topology

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

    def serve(self, unit: Unit, node: str, folder: str) -> None:
        """The agent with this state folder serves the node."""
        unit.tx.execute(update(self.agents).where(self.agents.c.node == node).values(folder=folder))

    def heard_since(self, unit: Unit, since: int) -> set[str]:
        """The nodes whose agents gave a word at `since` (microseconds) or later."""
        return set(unit.tx.execute(select(self.agents.c.node).where(self.agents.c.heard_at >= since)).scalars())

    def silent_nodes(self, unit: Unit, until: int, states: Sequence[NodeState.ValueType]) -> list[str]:
        """The nodes in one of these states whose agents gave no word after `until` (microseconds), in name order."""
        nodes, agents = self.nodes.table, self.agents
        heard = select(agents.c.node).where(agents.c.heard_at > until)
        there = nodes.c.state.in_([int(state) for state in states])
        found = select(nodes.c.name).where(there, nodes.c.name.not_in(heard)).order_by(nodes.c.name)
        return list(unit.tx.execute(found).scalars())

    def drain(self, unit: Unit, node: str, *, draining: bool) -> None:
        unit.tx.execute(update(self.agents).where(self.agents.c.node == node).values(draining=draining))

    def begin(self, unit: Unit, job: Job, seats: tuple[Seat, ...], now: datetime) -> None:
        """Forget the attempt before and record this one."""
        for table in (self.attempts, self.ranks, self.stalls):
            unit.tx.execute(delete(table).where(table.c.job == job.name))
        unit.tx.execute(
            insert(self.attempts).values(
                job=job.name,
                epoch=job.epoch,
                resume_step=job.step,
                placed_at=micros(now),
                step=job.step,
                loss=job.loss,
                skipped=job.skipped,
            )
        )
        unit.tx.insert(
            self.ranks,
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

    def ranks_on(self, unit: Unit, job: Job, node: str) -> dict[int, RankRow]:
        """The ranks of the current attempt on a node, by number."""
        return {row.rank: row for row in self._ranks(unit, job, self.ranks.c.node == node)}

    def nodes_of(self, unit: Unit, job: Job, ranks: Collection[int] | None = None) -> dict[int, str]:
        """The nodes of these ranks of the current attempt, or of all; a rank that does not exist is left out."""
        where = true() if ranks is None else self.ranks.c.rank.in_(list(ranks))
        return {row.rank: row.node for row in self._ranks(unit, job, where)}

    def note_stall(self, unit: Unit, job: Job, request: ReportStallRequest) -> None:
        """Keep what a node reports of a stall of the current attempt, instead of an earlier report."""
        own = self.stalls.c.job == job.name, self.stalls.c.node == request.node
        before = unit.tx.execute(select(self.stalls.c.at, self.stalls.c.report).where(*own)).first()
        kept = ReportStallRequest()
        kept.CopyFrom(request)
        if before is not None:
            kept.seconds = max(kept.seconds, ReportStallRequest.FromString(before.report).seconds)
        unit.tx.execute(delete(self.stalls).where(*own))
        values = {"epoch": job.epoch, "at": before.at if before else micros(unit.now)}
        unit.tx.execute(
            insert(self.stalls).values(
                job=job.name, node=request.node, report=kept.SerializeToString(deterministic=True), **values
            )
        )

    def stall_reports(self, unit: Unit, job: Job) -> list[StallReport]:
        """The reports of the open inquiry of the current attempt, by node; none if there is none."""
        own = self.stalls.c.job == job.name, self.stalls.c.epoch == job.epoch
        rows = unit.tx.execute(select(self.stalls).where(*own).order_by(self.stalls.c.node)).all()
        return [StallReport(row.node, row.at, ReportStallRequest.FromString(row.report)) for row in rows]

    def forget_stall(self, unit: Unit, job: Job) -> None:
        """An inquiry is closed."""
        unit.tx.execute(delete(self.stalls).where(self.stalls.c.job == job.name))

    def ranks_without(self, unit: Unit, job: Job, *events: RankEvent.ValueType, limit: int = SHOWN) -> list[RankRow]:
        """The first ranks of the current attempt whose last event is none of these, in order."""
        return self._ranks(unit, job, self.ranks.c.event.not_in([int(event) for event in events]), limit=limit)

    def report(self, unit: Unit, job: Job, ranks: Sequence[int], event: RankEvent.ValueType) -> None:
        where = (self.ranks.c.job == job.name, self.ranks.c.rank.in_(ranks))
        unit.tx.execute(update(self.ranks).where(*where).values(event=int(event)))

    def _ranks(self, unit: Unit, job: Job, where: ColumnElement[bool], *, limit: int | None = None) -> list[RankRow]:
        found = select(self.ranks).where(self.ranks.c.job == job.name, where).order_by(self.ranks.c.rank).limit(limit)
        return [RankRow(row.rank, row.node, RankEvent.ValueType(row.event)) for row in unit.tx.execute(found).all()]
