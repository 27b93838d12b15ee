"""Stalls: the reports of all nodes about an epoch in which some rank makes no progress, and the decision from them.

Promises: the first report opens an inquiry, and every node of the epoch is asked; with the reports of all nodes, or
after a deadline, it is decided once; whoever did not answer is named; if nobody is at fault, the ranks go on.
"""

from collections.abc import Collection

from tutti.chassis.errors import InvalidField
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import Assignment, Job, Node, RankStanding, ReportStallRequest
from tutti.model.stall import Call, Gang, Standing, examine
from tutti.scheduler import jobs
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.tables import Tables

MAX_REPORT_BYTES = 1_000_000


class Stalls:
    """`seconds` is the time that the nodes of an epoch have to answer."""

    def __init__(self, tables: Tables, epochs: Epochs, seconds: float) -> None:
        self._tables, self._epochs, self._seconds = tables, epochs, seconds

    def report(self, unit: Unit, job: Job, request: ReportStallRequest) -> int:
        """Take the report of a node that holds ranks of the epoch; return the inquiry that it belongs to, 0 for none.

        Raises InvalidField.
        """
        own = self._tables.ranks_on(unit, job, request.node)
        if not own:
            raise InvalidField("node", seen=request.node, expected=f"one that ranks of {job.name} are placed on")
        if strangers := [each.rank for each in request.ranks if each.rank not in own]:
            expected = ", ".join(f"rank {rank}" for rank in own)
            raise InvalidField("ranks", seen=f"rank {strangers[0]} on {request.node}", expected=expected)
        if request.ByteSize() > MAX_REPORT_BYTES:
            raise InvalidField("ranks", seen=f"{request.ByteSize()} bytes", expected=f"at most {MAX_REPORT_BYTES}")
        if job.state not in jobs.PLACED:
            return 0
        nodes = self._epochs.all_holders(unit, job)
        number, is_open = _inquiry(nodes, job)
        if not is_open:
            if request.inquiry:  # the answer to one that is closed
                return 0
            number += 1
            self._tables.forget_stall(unit, job)
            for node in nodes:
                for assignment in _assignments(node, job):
                    assignment.stall_inquiry = number
                self._tables.nodes.put(unit, node)
        self._tables.note_stall(unit, job, request)
        if not self._silent(unit, job):
            self._decide(unit, job)
        else:
            self._epochs.wake(unit, job.name)
        return number

    def look(self, unit: Unit, job: Job) -> float | None:
        """Return the seconds that the nodes have left to answer, 0 after it was decided; None without an inquiry."""
        reports = self._tables.stall_reports(unit, job)
        if not reports:
            return None
        left = self._seconds - (micros(unit.now) - min(each.at for each in reports)) / 1e6
        if left > 0 and self._silent(unit, job):
            return left
        self._decide(unit, job)
        return 0.0

    def _silent(self, unit: Unit, job: Job) -> set[str]:
        """The nodes that have not answered."""
        answered = {each.node for each in self._tables.stall_reports(unit, job)}
        return set(self._tables.nodes_of(unit, job).values()) - answered

    def _decide(self, unit: Unit, job: Job) -> None:
        requests = [each.request for each in self._tables.stall_reports(unit, job)]
        gang = Gang(self._tables.nodes_of(unit, job), _groups(requests))
        standings = [_standing(each) for request in requests for each in request.ranks]
        finding = examine(gang, standings, seconds=max(request.seconds for request in requests))
        if not finding.excused:
            guilty = {rank: gang.nodes[rank] for rank in finding.guilty}
            self._epochs.lose_ranks(unit, job, guilty, finding.cause)
            return
        self._tables.forget_stall(unit, job)
        for node in self._epochs.all_holders(unit, job):
            for assignment in _assignments(node, job):
                assignment.stall_settled = assignment.stall_inquiry
            self._tables.nodes.put(unit, node)


def _inquiry(nodes: Collection[Node], job: Job) -> tuple[int, bool]:
    """The number of the newest inquiry of the epoch, and whether it is open."""
    own = [assignment for node in nodes for assignment in _assignments(node, job)]
    number = max((each.stall_inquiry for each in own), default=0)
    return number, number > max((each.stall_settled for each in own), default=0)


def _assignments(node: Node, job: Job) -> list[Assignment]:
    return [each for each in node.assignments if (each.job, each.epoch) == (job.name, job.epoch)]


def _groups(requests: Collection[ReportStallRequest]) -> dict[str, tuple[int, ...]]:
    return {group.name: tuple(group.ranks) for request in requests for group in request.groups}


def _standing(told: RankStanding) -> Standing:
    calls = tuple(
        Call(
            each.group,
            each.entered,
            each.name,
            pending=each.pending if each.HasField("pending") else None,
            peers=tuple(each.peers),
        )
        for each in told.calls
    )
    return Standing(
        told.rank,
        crossed=told.crossed,
        step=told.step,
        phase=told.phase,
        place=told.place,
        idle=told.idle_seconds,
        calls=calls,
        silent=told.silent,
    )
