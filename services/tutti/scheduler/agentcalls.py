"""The calls of agents: what a node is, that it lives, what its ranks did.

Promises: each may arrive twice; a stale incarnation or epoch is refused and changes nothing.
"""

import dataclasses
import math

from tutti.chassis.errors import InvalidField, Refused, StaleEpoch
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    RANK_EVENT_DISTURBED,
    RANK_EVENT_LISTENING,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    HeartbeatRequest,
    HeartbeatResponse,
    Job,
    Node,
    Pace,
    RegisterNodeRequest,
    ReportProgressRequest,
    ReportProgressResponse,
    ReportRankRequest,
    ReportRankResponse,
    ReportReleasedRequest,
    ReportReleasedResponse,
    ReportStallRequest,
    ReportStallResponse,
)
from tutti.scheduler import jobs
from tutti.scheduler.epochs import Epochs, LostRank
from tutti.scheduler.gangs import MAX_ADDRESS_BYTES, MAX_DEVICE_BYTES, MAX_SLOTS
from tutti.scheduler.nodewatch import NodeWatch
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.stalls import Stalls
from tutti.scheduler.tables import READY, SPAWNED, RankRow, Tables

MAX_WORD_BYTES = 128
NODE_TAKEN = "NODE_TAKEN"


class AgentCalls:
    def __init__(
        self,
        host: Host,
        tables: Tables,
        epochs: Epochs,
        watch: NodeWatch,
        stalls: Stalls,
        settings: SchedulerSettings,
    ) -> None:
        self._host, self.tables, self._epochs, self._stalls = host, tables, epochs, stalls
        self._watch, self._settings = watch, settings

    def RegisterNode(self, request: RegisterNodeRequest, call: Call) -> Node:
        check_name("nodes", request.name)
        required(request, "incarnation")
        if not 1 <= request.slots <= MAX_SLOTS:
            raise InvalidField("slots", seen=request.slots, expected=f"1 … {MAX_SLOTS} ranks that may run here")
        if len(request.devices) > request.slots:
            raise InvalidField("devices", seen=len(request.devices), expected=f"at most one a slot ({request.slots})")
        _check_length("address", request.address, MAX_ADDRESS_BYTES)
        for field in ("incarnation", "kernel", "machine", "folder"):
            _check_length(field, getattr(request, field), MAX_WORD_BYTES)
        for device in request.devices:
            _check_length("devices", device, MAX_DEVICE_BYTES)
        return self._host.units.run(lambda unit: self._register(unit, request))

    def _register(self, unit: Unit, request: RegisterNodeRequest) -> Node:
        self._require_free(unit, request)
        self.tables.heard(unit, request.name)
        if request.folder:
            self.tables.serve(unit, request.name, request.folder)
        if self.tables.nodes.find(unit, request.name) is None:
            node = self.tables.nodes.create(unit, _described(Node(name=request.name), request))
            self._epochs.wake_queue(unit)
            return node
        node = self.tables.nodes.lock(unit, request.name)
        new = node.incarnation != request.incarnation
        void = list(node.assignments) if new else []
        if void:
            del node.assignments[:]
            for each in void:
                self.tables.placements.release(unit, node.name, each.job, each.epoch)
        if new or node.state != NODE_STATE_LEFT:
            self._back(unit, node)
        node = self.tables.nodes.put(unit, _described(node, request))
        # A new agent has killed what the old one left behind, before it registered: nothing of those epochs is left.
        self._epochs.forsake(unit, node, void, "has a new agent, the ranks of the old one are gone")
        self._epochs.wake_queue(unit)
        return self.tables.nodes.get(unit, request.name)

    def _require_free(self, unit: Unit, request: RegisterNodeRequest) -> None:
        """Raise Refused where an agent with another state folder serves the node and is alive."""
        agent, node = self.tables.agent(unit, request.name), self.tables.nodes.find(unit, request.name)
        if agent is None or node is None or not request.folder or agent.folder in ("", request.folder):
            return
        if node.state in (NODE_STATE_LEFT, NODE_STATE_LOST) or not self._watch.is_alive(unit, agent):
            return
        raise Refused(
            NODE_TAKEN,
            f"{request.name} is served by another agent, at {node.address}, with the state folder {agent.folder}: give "
            f"this one (folder {request.folder}) a name of its own with --node, or stop the other",
        )

    def Heartbeat(self, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
        required(request, "name", "incarnation")

        def hear(unit: Unit) -> HeartbeatResponse:
            node = self.tables.nodes.get(unit, request.name)
            _check_incarnation(node, request.incarnation)
            first = not self._watch.has_heard(unit, node.name)
            self.tables.heard(unit, request.name)
            if request.leaving and node.state != NODE_STATE_LEFT:
                node = self._leave(unit, request.name)
            elif node.state == NODE_STATE_LOST:
                node = self.tables.nodes.lock(unit, request.name)
                self._back(unit, node)
                node = self.tables.nodes.put(unit, node)
                self._epochs.wake_queue(unit)
            elif first:
                self._epochs.wake_queue(unit)
            return HeartbeatResponse(revision=node.revision)

        return self._host.units.run(hear)

    def _back(self, unit: Unit, node: Node) -> None:
        """Its agent is there: the node takes ranks, unless somebody drains it."""
        agent = self.tables.agent(unit, node.name)
        node.state = NODE_STATE_DRAINING if agent and agent.draining else NODE_STATE_READY
        node.reason = ""

    def _leave(self, unit: Unit, name: str) -> Node:
        """Its agent was asked to stop: what runs there ends on purpose, and nothing more is placed there."""
        node = self.tables.nodes.lock(unit, name)
        node.state, node.reason = NODE_STATE_LEFT, "its agent was stopped; it takes ranks again when one is started"
        self._epochs.leave(unit, self.tables.nodes.put(unit, node))
        self._epochs.wake_queue(unit)
        return self.tables.nodes.get(unit, name)

    def ReportRank(self, request: ReportRankRequest, call: Call) -> ReportRankResponse:
        required(request, "job", "epoch", "node", "event")
        if request.event == RANK_EVENT_LISTENING:
            required(request, "address")
            _check_length("address", request.address, MAX_ADDRESS_BYTES)
        self._host.units.run(lambda unit: self._report(unit, request))
        return ReportRankResponse()

    def _report(self, unit: Unit, request: ReportRankRequest) -> None:
        job = self._current(unit, request.job, request.epoch)
        rows = self._reported(unit, job, request)
        if not rows or job.state not in (*jobs.PLACED, JOB_STATE_STOPPING):
            return
        if request.event == RANK_EVENT_LOST:
            cause = clipped(request.cause or "its agent gave no cause")
            _check_length("reason", request.reason, MAX_WORD_BYTES)
            if request.HasField("audit"):
                self._epochs.fail_audit(unit, job, request.audit, cause)
                return
            if request.HasField("spike"):
                self._epochs.go_back(unit, job, request.spike)
                return
            stop = request.stop if request.HasField("stop") else None
            for row in rows:
                lost = LostRank(
                    row.rank,
                    request.node,
                    request.step,
                    cause,
                    request.final,
                    stop,
                    consequence=request.consequence,
                    reason=request.reason,
                )
                job = self._epochs.lose_rank(unit, job, lost)
            return
        if request.event == RANK_EVENT_DISTURBED and request.HasField("spike"):
            self._epochs.spike(unit, job, request.spike)
            return
        if request.event == RANK_EVENT_DISTURBED:
            self._epochs.note(unit, job, f"{request.node}: {clipped(request.cause)}")
            return
        rows = [row for row in rows if row.event < request.event]
        if job.state == JOB_STATE_STOPPING or not rows:
            return
        self.tables.report(unit, job, [row.rank for row in rows], request.event)
        newly_spawned = any(not row.spawned for row in rows)
        if newly_spawned and not self.tables.ranks_without(unit, job, *SPAWNED, limit=1):
            self._epochs.wake(unit, job.name)
        if request.event == RANK_EVENT_LISTENING:
            self._epochs.meet(unit, job, request.address)
        elif request.event >= RANK_EVENT_READY and not self.tables.ranks_without(unit, job, *READY, limit=1):
            if job.state == JOB_STATE_STARTING:
                self.tables.jobs.put(unit, jobs.running(job))
            self._epochs.wake(unit, job.name)

    def _reported(self, unit: Unit, job: Job, request: ReportRankRequest) -> list[RankRow]:
        """The ranks that a report is about, without lost ones. Raises InvalidField for a rank of another node."""
        own = self.tables.ranks_on(unit, job, request.node)
        reported = [request.rank, *request.more_ranks]
        strangers = [rank for rank in reported if rank not in own]
        if strangers:
            expected = ", ".join(f"rank {rank}" for rank in own) or "no rank: none is placed there"
            raise InvalidField("rank", seen=f"rank {strangers[0]} on {request.node}", expected=expected)
        return [own[rank] for rank in reported if not own[rank].lost]

    def ReportProgress(self, request: ReportProgressRequest, call: Call) -> ReportProgressResponse:
        required(request, "job", "epoch", "node")
        self._host.units.run(lambda unit: self._progress(unit, request))
        return ReportProgressResponse()

    def _progress(self, unit: Unit, request: ReportProgressRequest) -> None:
        job = self._current(unit, request.job, request.epoch)
        attempt = self.tables.attempt(unit, job)
        if attempt is None or job.state not in jobs.PLACED:
            return
        if not self.tables.ranks_on(unit, job, request.node):
            raise InvalidField("node", seen=request.node, expected=f"one that ranks of {job.name} are placed on")
        if request.step > job.spec.steps:
            raise InvalidField("step", seen=request.step, expected=f"at most {job.spec.steps}, the last of the job")
        if request.HasField("pace"):
            job = self._paced(unit, job, request.pace)
        if request.step < attempt.step:
            return
        bits = request.bits_per_byte if request.HasField("bits_per_byte") else attempt.bits_per_byte
        # An agent whose ranks had no finite loss yet has none to tell.
        loss = request.loss if math.isfinite(request.loss) else attempt.loss
        crossed = jobs.Crossed(request.step, loss, bits, request.skipped, request.skipped_in_a_row)
        now = micros(unit.now)
        values = {**dataclasses.asdict(crossed), "worked_at": now}
        if request.step > attempt.step:
            values["step_at"] = now
        if not attempt.first_at:
            values |= {"first_step": request.step, "first_at": now}
        # Each event is a row and a message to every reader; between two of them the newest step is in our row alone.
        if now - attempt.persisted_at >= self._settings.progress_seconds * 1_000_000:
            values["persisted_at"] = now
            self.tables.jobs.put(unit, jobs.progressed(job, crossed))
        self.tables.note(unit, job, values)

    def _paced(self, unit: Unit, job: Job, pace: Pace) -> Job:
        """Record which ranks are slow. Raises InvalidField for a rank that the epoch does not have."""
        slow = {each.rank for each in pace.stragglers}
        nodes = self.tables.nodes_of(unit, job, slow)
        if unknown := sorted(slow - nodes.keys()):
            raise InvalidField("pace.stragglers", seen=f"rank {unknown[0]}", expected=f"ranks of epoch {job.epoch}")
        after = jobs.paced(job, pace, nodes)
        return job if after is job else self.tables.jobs.put(unit, after)

    def ReportStall(self, request: ReportStallRequest, call: Call) -> ReportStallResponse:
        required(request, "job", "epoch", "node", "ranks")

        def report(unit: Unit) -> ReportStallResponse:
            job = self._current(unit, request.job, request.epoch)
            return ReportStallResponse(inquiry=self._stalls.report(unit, job, request))

        return self._host.units.run(report)

    def ReportReleased(self, request: ReportReleasedRequest, call: Call) -> ReportReleasedResponse:
        required(request, "job", "epoch", "node", "incarnation")

        def release(unit: Unit) -> None:
            job = self.tables.jobs.lock(unit, request.job)
            node = self.tables.nodes.lock(unit, request.node)
            _check_incarnation(node, request.incarnation)
            if not self._epochs.release(unit, node, job, request.epoch):
                return
            if job.epoch == request.epoch and job.state in jobs.PLACED:
                own = self.tables.ranks_on(unit, job, node.name)
                unfinished = [row for row in own.values() if not row.finished]
                if unfinished:
                    self._epochs.fail(unit, job, f"{node.name} let go of rank {unfinished[0].rank} without being asked")
            self._epochs.wake(unit, job.name)
            self._epochs.wake_queue(unit)

        self._host.units.run(release)
        return ReportReleasedResponse()

    def _current(self, unit: Unit, name: str, epoch: int) -> Job:
        job = self.tables.jobs.lock(unit, name)
        if epoch < job.epoch:
            raise StaleEpoch(f"{name} is in epoch {job.epoch}; end the ranks of epoch {epoch} and report them released")
        if epoch > job.epoch:
            raise Refused("UNKNOWN_EPOCH", f"{name} is in epoch {job.epoch}; epoch {epoch} was never given out")
        return self._watch.went_on(unit, job)


def _check_length(field: str, text: str, most: int) -> None:
    """Raise InvalidField for a word that no event about its resource should have to carry."""
    if len(text.encode()) > most:
        raise InvalidField(field, seen=f"{len(text.encode())} bytes", expected=f"at most {most}")


def _described(node: Node, request: RegisterNodeRequest) -> Node:
    node.slots, node.address, node.incarnation = request.slots, request.address, request.incarnation
    node.kernel, node.machine, node.memory_bytes = request.kernel, request.machine, request.memory_bytes
    node.state = node.state or NODE_STATE_READY
    del node.devices[:]
    node.devices.extend(request.devices)
    return node


def _check_incarnation(node: Node, incarnation: str) -> None:
    if node.incarnation != incarnation:
        raise StaleEpoch(
            f"{node.name} is run by the agent {node.incarnation}; this is {incarnation}: end, or register anew"
        )
