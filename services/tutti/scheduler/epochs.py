"""Epochs: how an attempt of a job begins and ends on the nodes.

Promises: a node's slots are given to an epoch when it is placed and come back only when its own agent says that no
process of that epoch is left, or comes back as a new process; every change is inside the caller's unit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_STOPPING,
    NODE_STATE_LOST,
    RANK_EVENT_LOST,
    TRANSITION_STATE_APPLIED,
    TRANSITION_STATE_RECORDED,
    TRANSITION_STATE_WITHDRAWN,
    Assignment,
    AuditFailure,
    EpochOpened,
    Job,
    Node,
    PolicyStop,
    PolicyStopped,
    RankLost,
    Spike,
    SpikeEnded,
    Transition,
)
from tutti.scheduler import gangs, jobs, spikes, topology
from tutti.scheduler.convictions import Judged
from tutti.scheduler.endings import ending_of
from tutti.scheduler.jobrows import seats_of
from tutti.scheduler.tables import Tables
from tutti.scheduler.trainings import last_audit


@dataclass(frozen=True)
class LostRank:
    """A rank that ended before its time, as its agent saw it; `final` if it would in every attempt, `stop` if the
    policy reached a stop rule.
    """

    rank: int
    node: str
    step: int
    cause: str
    final: bool = False
    stop: PolicyStop | None = None
    consequence: bool = False
    """It ended because of ranks on other nodes."""
    reason: str = ""
    """For machines; empty if its agent gave none."""

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.node} lost ({self.cause}) after step {self.step}"


class Epochs:
    """`wake` is called with a job's name after the commit."""

    def __init__(self, tables: Tables, wake: Callable[[str], None], attempts: int) -> None:
        self._tables, self._wake, self._attempts = tables, wake, attempts

    def begin(
        self, unit: Unit, job: Job, resume: jobs.ResumePoint, seats: tuple[gangs.Seat, ...], transition: str
    ) -> Job:
        """Give the seats to the job's epoch and record where it resumes."""
        cause = self.last_line(unit, job) or "first"
        before = seats_of(job.placement) or self._tables.placements.seats(unit, job.name, job.topology_version)
        started = self._tables.jobs.put(unit, jobs.starting(job, resume, seats, moved=before != seats))
        self._tables.placements.record(unit, started, seats)
        self._tables.begin(unit, started, seats, unit.now)
        nodes = []
        for name, grouped in groupby(seats, key=lambda seat: seat.node):
            nodes.append(name)
            node, own = self._tables.nodes.lock(unit, name), list(grouped)
            node.assignments.append(
                Assignment(
                    job=started.name,
                    epoch=started.epoch,
                    ranks=[seat.rank for seat in own],
                    devices=[seat.device for seat in own],
                    shape=started.shape,
                    line=started.line,
                    training=started.spec.training,
                    dataset_manifest_key=started.spec.dataset_manifest_key,
                    dataset_digest=started.spec.dataset_digest,
                    mixed=started.spec.mixed,
                    tokenizer_key=started.spec.tokenizer_key,
                    resume_checkpoint=started.resume_checkpoint,
                    resume_manifest_key=started.resume_manifest_key,
                    resume_digest=started.resume_digest,
                    topology_version=started.topology_version,
                    traceparent=unit.cause.traceparent,
                    rollouts=topology.workers(started),
                )
            )
            self._tables.nodes.put(unit, node)
        if transition:
            self._apply(unit, started, transition)
        self._arrange(unit, started, gangs.node_words(nodes), transition)
        unit.fact(
            started.name,
            EpochOpened(
                job=started.name,
                epoch=started.epoch,
                resume_step=resume.step,
                cause=cause,
                shape=started.shape,
                topology=topology.topology_name(started),
            ),
        )
        return started

    def meet(self, unit: Unit, job: Job, address: str) -> None:
        """Tell every node of the epoch where the ranks meet."""
        self._tables.jobs.put(unit, jobs.met(job, address))
        for node in self.all_holders(unit, job):
            for assignment in _of(node, job):
                assignment.rendezvous = address
            self._tables.nodes.put(unit, node)

    def lose_rank(self, unit: Unit, job: Job, lost: LostRank) -> Job:
        """A rank is gone: the epoch ends, unless it is ending already; the history names the rank either way."""
        self._tables.report(unit, job, [lost.rank], RANK_EVENT_LOST)
        if job.state not in jobs.ENDED and not lost.consequence:
            job = jobs.blamed(job, lost.node)
        if job.state in jobs.ENDED:
            after = job
        elif job.state not in jobs.PLACED:
            after = self._tables.jobs.put(unit, jobs.also(job, str(lost)))
        elif lost.final:
            named = jobs.also(self._with_progress(unit, job), str(lost))
            after = self.end(unit, jobs.failed(named, f"{lost}; each attempt would end in the same way", unit.now))
            if lost.stop is not None:
                unit.fact(job.name, _stopped(after, lost.step, lost.stop))
        else:
            ending = ending_of(job, lost.reason, lost.cause, lost.step)
            after = self.fail(unit, job, str(lost), ending)
        unit.fact(
            job.name,
            RankLost(job=job.name, epoch=after.epoch, rank=lost.rank, node=lost.node, step=lost.step, cause=lost.cause),
        )
        return after

    def fail_audit(self, unit: Unit, job: Job, audit: AuditFailure, cause: str) -> Job:
        """An audit failed, which every rank of the attempt reports: the first report is recorded."""
        if job.HasField("trusted_step") or job.state not in (*jobs.PLACED, JOB_STATE_STOPPING):
            return job
        seats = {seat.rank: seat for seat in self._tables.placements.seats(unit, job.name, job.topology_version)}
        judged = self._tables.convictions.judge(unit, job, audit, seats)
        for name in {seats[rank].node for rank in judged.convicted if rank in seats}:
            node = self._tables.nodes.lock(unit, name)
            node.convictions = self._tables.convictions.count(unit, name)
            self._tables.nodes.put(unit, node)
        what = f"{_verdict(audit, judged, seats)}: {cause}"
        after = self.doubt(unit, job, last_audit(job, max(audit.step, 1) - 1) or 0, what)
        for rank in judged.convicted or judged.suspects:
            where = seats[rank].node if rank in seats else ""
            fact = RankLost(job=job.name, epoch=job.epoch, rank=rank, node=where, step=audit.step - 1, cause=what)
            unit.fact(job.name, fact)
        return after

    def doubt(self, unit: Unit, job: Job, trusted_step: int, what: str) -> Job:
        """States after a step may be wrong: end the attempt, and resume before them."""
        doubted = jobs.doubted(job, trusted_step)
        if job.state in jobs.PLACED:
            return self.fail(unit, doubted, what)
        put = self._tables.jobs.put(unit, jobs.also(doubted, what))
        self.wake(unit, put.name)
        return put

    def lose_ranks(self, unit: Unit, job: Job, guilty: Mapping[int, str], cause: str) -> None:
        """The attempt ends because of these ranks, by their nodes; with none, because of the network between them."""
        self._tables.report(unit, job, list(guilty), RANK_EVENT_LOST)
        for node in sorted(set(guilty.values())):
            job = jobs.blamed(job, node)
        attempt = self._tables.attempt(unit, job)
        step = attempt.step if attempt else job.step
        after = self.fail(unit, job, cause)
        for rank, node in sorted(guilty.items()):
            lost = RankLost(job=job.name, epoch=after.epoch, rank=rank, node=node, step=step, cause=clipped(cause))
            unit.fact(job.name, lost)

    def note(self, unit: Unit, job: Job, what: str) -> Job:
        """Record an interruption that the ranks survived. Idempotent."""
        after = jobs.also(job, what)
        known = self._tables.jobs.history(unit, job)
        return job if after.history[-1] in known else self._tables.jobs.put(unit, after)

    def spike(self, unit: Unit, job: Job, spike: Spike) -> Job:
        """Record a spike of the training. Idempotent."""
        after = self.note(unit, job, spikes.words(spike))
        if after is not job:
            unit.fact(job.name, SpikeEnded(job=job.name, epoch=job.epoch, spike=spike))
        return after

    def go_back(self, unit: Unit, job: Job, spike: Spike) -> Job:
        """Go back before a spike, which every rank of the attempt reports: the first report is recorded.

        The next attempt leaves out its data. Raises InvalidField for a spike that the training cannot have.
        """
        if job.HasField("trusted_step"):
            return job
        job = self.spike(unit, job, spike)
        after = spikes.gone_back(job, spike)
        if early := spikes.too_early(job, spike):
            return self.end(unit, jobs.failed(self._with_progress(unit, job), early, unit.now))
        what = f"goes back before step {spike.first}, and leaves out the data of {spikes.steps(spike)}"
        if job.state in jobs.PLACED:
            return self.stop(unit, after, what)
        return self._tables.jobs.put(unit, jobs.also(after, what))

    def fail(self, unit: Unit, job: Job, what: str, ending: jobs.Ending | None = None) -> Job:
        """The attempt failed: stop its ranks; the next one follows, or the job gives up."""
        attempt = self._tables.attempt(unit, job)
        resume_step = attempt.resume_step if attempt else job.decided_step
        after = jobs.lost(
            self._with_progress(unit, job),
            what,
            resume_step=resume_step,
            attempts=job.spec.attempts or self._attempts,
            now=unit.now,
            ending=ending,
        )
        return self._stopped(unit, after)

    def stop(self, unit: Unit, job: Job, why: str) -> Job:
        """End the attempt on purpose; the next one follows."""
        return self._stopped(unit, jobs.stopping(self._with_progress(unit, job), why))

    def end(self, unit: Unit, ended: Job) -> Job:
        """Record a job that has ended; what it still holds is stopped."""
        return self._stopped(unit, ended)

    def release(self, unit: Unit, node: Node, job: Job, epoch: int) -> bool:
        """The agent says that nothing of the epoch is left on its node; whether that was news."""
        kept = [each for each in node.assignments if (each.job, each.epoch) != (job.name, epoch)]
        if len(kept) == len(node.assignments):
            return False
        del node.assignments[:]
        node.assignments.extend(kept)
        self._tables.nodes.put(unit, node)
        self._tables.placements.release(unit, node.name, job.name, epoch)
        return True

    def forsake(self, unit: Unit, node: Node, assignments: Iterable[Assignment], what: str) -> None:
        """The node cannot carry on what it was assigned: each epoch that it took part in fails."""
        for assignment in assignments:
            job = self._tables.jobs.lock(unit, assignment.job)
            if job.epoch == assignment.epoch and job.state in jobs.PLACED:
                self.fail(unit, jobs.blamed(job, node.name), f"{node.name} {what}")
            self.wake(unit, job.name)

    def leave(self, unit: Unit, node: Node) -> None:
        """The agent of the node was asked to stop: each epoch that it still works on ends, and no attempt is spent."""
        for assignment in list(node.assignments):
            job = self._tables.jobs.lock(unit, assignment.job)
            works = not all(row.finished for row in self._tables.ranks_on(unit, job, node.name).values())
            if job.epoch == assignment.epoch and job.state in jobs.PLACED and works:
                self.stop(unit, job, f"the agent of {node.name} was asked to stop")

    def holders(self, unit: Unit, job: Job) -> list[str]:
        """The nodes that were heard of and still hold something of the job's epoch, in name order."""
        if job.placement:
            return [node.name for node in self.all_holders(unit, job) if node.state != NODE_STATE_LOST]
        return self._tables.placements.heard_holders(unit, job, self._tables.nodes.table)

    def last_line(self, unit: Unit, job: Job) -> str:
        """The newest line of the job's history, or ""."""
        return next(reversed(self._tables.jobs.history(unit, job)), "")

    def wake(self, unit: Unit, job: str) -> None:
        unit.on_commit(lambda: self._wake(job))

    def wake_queue(self, unit: Unit) -> None:
        """Slots or nodes changed: whoever waits for them looks again."""
        for job in self._tables.jobs.select(unit, state=[int(state) for state in jobs.OPEN]):
            if job.state not in jobs.PLACED:
                self.wake(unit, job.name)

    def _with_progress(self, unit: Unit, job: Job) -> Job:
        attempt = self._tables.attempt(unit, job)
        return jobs.progressed(job, attempt.crossed) if attempt and attempt.step > job.step else job

    def _stopped(self, unit: Unit, after: Job) -> Job:
        put = self._tables.jobs.put(unit, after)
        self._tables.note(unit, put, {"stopped_at": micros(unit.now)})
        self._tables.forget_stall(unit, put)
        for node in self.all_holders(unit, put):
            for assignment in _of(node, put):
                assignment.stop = True
            self._tables.nodes.put(unit, node)
        if put.state in jobs.ENDED:
            for transition in self._tables.transitions.select(unit, job=put.name, state=int(TRANSITION_STATE_RECORDED)):
                self.withdraw(unit, transition)
        self.wake(unit, put.name)
        return put

    def withdraw(self, unit: Unit, transition: Transition) -> None:
        locked = self._tables.transitions.lock(unit, transition.name)
        locked.state = TRANSITION_STATE_WITHDRAWN
        self._tables.transitions.put(unit, locked)

    def _apply(self, unit: Unit, job: Job, name: str) -> None:
        transition = self._tables.transitions.lock(unit, name)
        if transition.state == TRANSITION_STATE_RECORDED:
            transition.state, transition.epoch = TRANSITION_STATE_APPLIED, job.epoch
            transition.at_step = job.decided_step
            self._tables.transitions.put(unit, transition)

    def _arrange(self, unit: Unit, job: Job, nodes: str, transition: str) -> None:
        """Record the topology that the epoch begins under, and on which nodes its ranks are, in words."""
        name = topology.topology_name(job)
        if self._tables.topologies.find(unit, name) is None:
            led = self._tables.transitions.get(unit, transition) if transition else None
            self._tables.topologies.create(unit, topology.first_placed(job, nodes, led))
        else:
            known = self._tables.topologies.lock(unit, name)
            self._tables.topologies.put(unit, topology.placed_again(known, job, nodes))

    def all_holders(self, unit: Unit, job: Job) -> list[Node]:
        """The nodes with an assignment of the job's epoch, locked."""
        locked = (self._tables.nodes.lock(unit, name) for name in self._tables.placements.holders(unit, job))
        return [node for node in locked if _of(node, job)]


def _of(node: Node, job: Job) -> list[Assignment]:
    return [each for each in node.assignments if each.job == job.name and each.epoch == job.epoch]


def _stopped(job: Job, step: int, stop: PolicyStop) -> PolicyStopped:
    return PolicyStopped(job=job.name, epoch=job.epoch, step=step, rule=stop.rule, seen=stop.seen, limit=stop.limit)


def _verdict(audit: AuditFailure, judged: Judged, seats: dict[int, gangs.Seat]) -> str:
    def named(ranks: tuple[int, ...]) -> str:
        return ", ".join(f"rank {rank} on {seats[rank].node}" if rank in seats else f"rank {rank}" for rank in ranks)

    found = [f"convicted {named(judged.convicted)}"] if judged.convicted else []
    found += [f"suspects {named(judged.suspects)}"] if judged.suspects else []
    return f"the audit of step {audit.step} {' and '.join(found)}"
