"""The next action for a job: the decision of one unit, from the recorded state.

Promises: it writes what follows from the record alone; where an answer of the committer is needed it says which.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import NotFound
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.committer.v1 import OpenEpochRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_OPENING,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    RANK_EVENT_FINISHED,
    TRANSITION_STATE_RECORDED,
    Job,
    Node,
    Transition,
)
from tutti.records.counts import counted
from tutti.scheduler import gangs, jobs, queue, topology
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.nodewatch import NodeWatch
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.stalls import Stalls
from tutti.scheduler.tables import READY, SPAWNED, Attempt, RankRow, Tables
from tutti.scheduler.toolarge import TooLarge

POLICY = "policy"


@dataclass(frozen=True)
class Rest:
    """Nothing more to do until woken, or for so many seconds."""

    seconds: float | None = None


@dataclass(frozen=True)
class Again:
    """The state moved on: look again at once."""


@dataclass(frozen=True)
class Open:
    """Ask the committer to open the epoch."""

    request: OpenEpochRequest
    steps: int


@dataclass(frozen=True)
class Look:
    """Ask the committer what is committed: `last` is the final checkpoint when only that is missing, `reason` what the
    job says now."""

    job: str
    epoch: int
    line: int
    decided_step: int
    last: int | None
    reason: str


@dataclass(frozen=True)
class Finish:
    """The last checkpoint is committed: ask for it, and end the job with it."""

    job: str
    checkpoint: str


Next = Rest | Again | Open | Look | Finish


class Decisions:
    def __init__(
        self,
        tables: Tables,
        epochs: Epochs,
        watch: NodeWatch,
        stalls: Stalls,
        too_large: TooLarge,
        settings: SchedulerSettings,
    ) -> None:
        self._tables, self._epochs, self._watch, self._settings = tables, epochs, watch, settings
        self._stalls, self._too_large = stalls, too_large

    def went_on(self, unit: Unit, job: Job) -> Job:
        """The ranks of a job did something: its history says through what they went on."""
        return self._watch.went_on(unit, job)

    def decide(self, unit: Unit, name: str) -> Next:
        try:
            job = self._tables.jobs.lock(unit, name)
        except NotFound:
            return Rest()
        if job.state in jobs.ENDED:
            return Rest()
        attempt = self._tables.attempt(unit, job)
        if job.decided_step >= job.spec.steps:
            return Finish(job.name, f"checkpoints/{job.name.removeprefix('jobs/')}/{job.line}/{job.decided_step}")
        if job.state == JOB_STATE_QUEUED:
            return self._queued(unit, job)
        if job.state == JOB_STATE_OPENING:
            return self._opening(unit, job)
        if attempt is None:
            return Rest()
        if job.state in jobs.PLACED and (left := self._stalls.look(unit, job)) is not None:
            return Rest(left) if left > 0 else Again()
        if job.state == JOB_STATE_STARTING:
            return self._starting(unit, job, attempt)
        if job.state == JOB_STATE_RUNNING:
            return self._running(unit, job, attempt)
        if job.state == JOB_STATE_STOPPING:
            return self._stopping(unit, job, attempt)
        return Rest()

    def _queued(self, unit: Unit, job: Job) -> Next:
        if (left := self._backs_off(unit, job)) > 0:
            return Rest(left)
        nodes = self._tables.nodes.select(unit)
        ranks = topology.wanted(job)
        waiting = [
            queue.Waiting(each.name, each.started_at.ToMicroseconds(), topology.wanted(each) + topology.workers(each))
            for each in self._tables.jobs.select(unit, state=int(JOB_STATE_QUEUED))
        ]
        own = next(each for each in waiting if each.job == job.name)
        first = queue.ahead_of(own, waiting, gangs.capacity(nodes))
        if first is not None:
            return Rest(self._too_large.wait(unit, job, f"waiting for {first.job}, which was there first"))
        heard = self._watch.heard(unit, nodes)
        seats = ranks + topology.workers(job)
        found = self._placed(unit, job, seats, heard)
        if not isinstance(found, gangs.Short):
            self._tables.jobs.put(unit, jobs.opening(job, topology.shape_of(ranks, job.spec.shard)))
            self._epochs.wake_queue(unit)
            return Again()
        if self._shrink(unit, job, nodes):
            return Again()
        excluded = [node for node in nodes if gangs.is_excluded(node)]
        others = [node for node in nodes if node not in excluded]
        if gangs.registered(others) < seats <= gangs.registered(nodes):
            self._epochs.end(unit, jobs.failed(job, _without(excluded, seats), unit.now))
            return Rest()
        ready = [node for node in others if node.state == NODE_STATE_READY]
        gone = [node for node in nodes if node.state == NODE_STATE_LEFT]
        known = {node.name for node in heard}
        reason = queue.waits_for(
            ranks=seats,
            missing=found.missing,
            without={
                f"excluded after {gangs.EXCLUDING} convictions, until `tutti nodes clear`": [
                    node.name for node in excluded
                ],
                "lost": [node.name for node in nodes if node.state == NODE_STATE_LOST],
                "stopped": [node.name for node in gone if node.name in known],
                "draining": [node.name for node in nodes if node.state == NODE_STATE_DRAINING],
                # An agent that stopped before the scheduler started may be starting with the platform.
                "not heard of yet": [node.name for node in (*ready, *gone) if node.name not in known],
                "with as many jobs as a node can be told of": [node.name for node in ready if gangs.is_full(node)],
            },
            kernels=len({node.kernel for node in ready}),
        )
        return Rest(self._too_large.wait(unit, job, reason))

    def _backs_off(self, unit: Unit, job: Job) -> float:
        """Seconds until the next attempt may start, which the job then says; it keeps its place in the queue."""
        left = (micros(job.retry_at.ToDatetime(unit.now.tzinfo)) - micros(unit.now)) / 1e6
        if job.HasField("retry_at") and left > 0:
            seconds, why = jobs.BACKOFF.longest(job.fruitless), self._epochs.last_line(unit, job)
            after = f" after {job.fruitless} without a new checkpoint" if job.fruitless else ""
            self._tables.jobs.put(unit, jobs.waiting(job, f"waits {seconds:g} s for its next attempt{after}: {why}"))
            return left
        return 0.0

    def _shrink(self, unit: Unit, job: Job, nodes: Sequence[Node]) -> bool:
        """By the recipe's policy: fewer ranks when nodes are lost or excluded and what is left could never hold the
        gang.
        """
        lost = [node.name for node in nodes if node.state == NODE_STATE_LOST or gangs.is_excluded(node)]
        slots, ranks = gangs.capacity(nodes) - topology.workers(job), topology.wanted(job)
        if not (job.spec.shrink and lost and 0 < slots < ranks):
            return False
        fewer = topology.fastest(job.spec.leaves, slots)
        excluded = any(gangs.is_excluded(node) for node in nodes)
        cause = f"{gangs.node_words(lost)} {'lost or excluded' if excluded else 'lost'}, {slots} of {ranks} slots left"
        self.record(unit, job, fewer, actor=POLICY, cause=cause)
        return True

    def record(self, unit: Unit, job: Job, ranks: int, *, actor: str, cause: str) -> Transition:
        """Record a change of shape for the job's next epoch; one that still waited is withdrawn."""
        return self._tables.transitions.create(unit, self.transition(unit, job, ranks, actor=actor, cause=cause))

    def transition(self, unit: Unit, job: Job, ranks: int, *, actor: str, cause: str) -> Transition:
        """The next transition of a job, and the job told of it; the caller creates it."""
        known = self._tables.transitions.select(unit, job=job.name)
        for each in known:
            if each.state == TRANSITION_STATE_RECORDED:
                self._epochs.withdraw(unit, each)
        after = jobs.reshaped(job, ranks, f"{actor} asked for {counted(ranks, 'data-parallel rank')} ({cause})")
        self._tables.jobs.put(unit, after)
        self._epochs.wake(unit, job.name)
        number = max((topology.number_of(each) for each in known), default=0) + 1
        before = job.shape if job.shape.data_parallel else topology.shape_of(job.spec.data_parallel, job.spec.shard)
        return Transition(
            name=topology.transition_name(job.name, number),
            job=job.name,
            from_shape=before,
            to_shape=topology.shape_of(ranks, job.spec.shard),
            # Until it is applied: the newest checkpoint when it was recorded, so that the next one can be seen.
            at_step=job.decided_step,
            actor=actor,
            cause=cause,
            state=TRANSITION_STATE_RECORDED,
        )

    def _opening(self, unit: Unit, job: Job) -> Next:
        seats = self.seats(unit, job)
        if isinstance(seats, gangs.Short):
            self._tables.jobs.put(unit, jobs.requeued(job, "slots were taken before the epoch was opened"))
            return Again()
        request = OpenEpochRequest(
            job=job.name,
            epoch=job.epoch,
            shape=job.shape,
            transition=topology.allows(self._tables.transitions.select(unit, job=job.name), job.shape),
            training=job.spec.training,
            training_digest=job.spec.training_digest,
            dataset_digest=job.spec.dataset_digest,
            nodes=len({seat.node for seat in seats}),
        )
        if job.HasField("trusted_step"):
            request.trusted_step = job.trusted_step
            request.cause = self._epochs.last_line(unit, job) or "its states are in doubt"
        return Open(request, job.spec.steps)

    def seats(self, unit: Unit, job: Job) -> tuple[gangs.Seat, ...] | gangs.Short:
        heard = self._watch.heard(unit, self._tables.nodes.select(unit))
        return self._placed(unit, job, job.shape.data_parallel + topology.workers(job), heard)

    def _placed(self, unit: Unit, job: Job, seats: int, nodes: Sequence[Node]) -> tuple[gangs.Seat, ...] | gangs.Short:
        before = self._tables.placements.nodes(unit, job)
        convicted = [node.name for node in nodes if node.convictions]
        suspects = [name for name in self._tables.convictions.suspects(unit) if name not in convicted]
        return gangs.place(
            seats, [gangs.room_of(node) for node in nodes], before, [*jobs.avoided(job), *suspects, *convicted]
        )

    def _starting(self, unit: Unit, job: Job, attempt: Attempt) -> Next:
        pending = self._due(unit, job)
        if pending is not None:
            self._epochs.stop(unit, job, f"stopped for {pending.name}")
            return Again()
        settings = self._settings
        if not attempt.spawned_at and not self._tables.ranks_without(unit, job, *SPAWNED, limit=1):
            self._tables.note(unit, job, {"spawned_at": micros(unit.now)})
            return Rest(settings.rendezvous_seconds)
        if attempt.spawned_at:
            seconds, since = settings.rendezvous_seconds, "spawning"
        else:
            seconds, since = settings.staging_seconds, "placing"
        left = self._left(unit, attempt.spawned_at or attempt.placed_at, seconds)
        if left > 0:
            return Rest(left)
        late = self._tables.ranks_without(unit, job, *(READY if attempt.spawned_at else SPAWNED))
        lacks = "ready" if attempt.spawned_at else "spawned, their data staged,"
        self._epochs.fail(unit, job, f"{_named(late)} not {lacks} {seconds:g} s after {since}")
        return Again()

    def _running(self, unit: Unit, job: Job, attempt: Attempt) -> Next:
        finished = not self._tables.ranks_without(unit, job, RANK_EVENT_FINISHED, limit=1)
        if not finished:
            pending = self._due(unit, job)
            if pending is not None:
                self._epochs.stop(unit, job, f"stopped after checkpoint {job.decided_step} for {pending.name}")
                return Again()
            return Look(job.name, job.epoch, job.line, job.decided_step, None, job.reason)
        if not attempt.finished_at:
            self._tables.note(unit, job, {"finished_at": micros(unit.now)})
            waits = f"waits for the checkpoint of step {job.spec.steps} to be committed"
            self._tables.jobs.put(unit, jobs.waiting(jobs.progressed(job, attempt.crossed), waits))
        elif self._left(unit, attempt.finished_at, self._settings.commit_seconds) <= 0:
            what = f"the checkpoint of step {job.spec.steps} was not committed in {self._settings.commit_seconds:g} s"
            self._epochs.fail(unit, job, what)
            return Again()
        return Look(job.name, job.epoch, job.line, job.decided_step, job.spec.steps, job.reason)

    def _due(self, unit: Unit, job: Job) -> Transition | None:
        """The transition that this attempt should end for: nothing is lost, or a checkpoint was made since."""
        found = topology.newest(self._tables.transitions.select(unit, job=job.name))
        if found is None or found.to_shape.digest == job.shape.digest:
            return None
        return found if job.state == JOB_STATE_STARTING or job.decided_step > found.at_step else None

    def _stopping(self, unit: Unit, job: Job, attempt: Attempt) -> Next:
        holders = self._epochs.holders(unit, job)
        left = self._left(unit, attempt.stopped_at, self._settings.release_seconds)
        if holders and left > 0:
            why = self._epochs.last_line(unit, job) or job.reason
            waits = f"{why}; waits for {gangs.node_words(holders)} to release it"
            self._tables.jobs.put(unit, jobs.waiting(job, waits))
            return Rest(left)
        # Whoever has not released keeps its slots; the epoch is fenced at the committer, so the job goes on elsewhere.
        self._tables.jobs.put(unit, jobs.requeued(job, "waits for its turn"))
        return Again()

    def _left(self, unit: Unit, since: int, seconds: float) -> float:
        return seconds - (micros(unit.now) - since) / 1_000_000


def _named(rows: Sequence[RankRow]) -> str:
    return ", ".join(f"rank {row.rank} on {row.node}" for row in rows) or "the gang"


def _without(excluded: Sequence[Node], seats: int) -> str:
    names = gangs.node_words([node.name for node in excluded])
    clear = ", ".join(f"`tutti nodes clear {node.name.removeprefix('nodes/')}`" for node in excluded[: gangs.SHOWN])
    return (
        f"{names} excluded, because ranks there computed wrong results in {gangs.EXCLUDING} attempts, and no other "
        f"registered nodes have {seats} slots; check the hardware, then run {clear}, or add a node, and run the "
        "recipe again"
    )
