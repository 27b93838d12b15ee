"""The watch over nodes: marks nodes as lost after a TTL without heartbeats.

Promises: only time during which the scheduler was up and had its database counts. After a gap each node has a whole TTL
again, but gets no ranks before its first heartbeat. If ranks went on during the gap, the history of their jobs records
it once their node is heard.
"""

from collections.abc import Iterable
from datetime import datetime

from tutti.chassis.service import Host
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import (
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Job,
    Node,
)
from tutti.scheduler import jobs
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.tables import Agent, Tables

INTERVAL_SECONDS = 1.0
STARTED = "the scheduler was started again"


class NodeWatch:
    """A loop of every replica; `step` looks once whether it was away."""

    name = "scheduler node watch"

    def __init__(self, host: Host, tables: Tables, epochs: Epochs, ttl_seconds: float) -> None:
        self._host, self._tables, self._epochs, self._ttl = host, tables, epochs, ttl_seconds
        self.interval = min(INTERVAL_SECONDS, ttl_seconds / 5)
        # Between two looks that are further apart than this, the scheduler counts as having been away.
        self._gap = max(ttl_seconds / 3, 2 * self.interval)
        self._up_since: datetime | None = None
        self._looked: datetime | None = None
        self._owed: dict[str, list[tuple[int, str]]] = {}  # of a job: an epoch, and through what its ranks may go on
        self._early = set[str]()  # jobs whose ranks gave a word before the first look

    def step(self) -> bool:
        now = self._host.units.run(lambda unit: unit.now)
        if self._looked is None:
            self._returned(now, STARTED)
        elif not 0 <= (away := (now - self._looked).total_seconds()) <= self._gap:
            self._returned(now, f"the scheduler was away for {away:.0f} s")
        self._looked = now
        return False

    def declare_lost(self) -> bool:
        """Check the nodes; True if one was declared lost."""
        return self._host.units.run(self._look)

    def heard(self, unit: Unit, nodes: Iterable[Node]) -> list[Node]:
        """Those whose agents gave a word since the scheduler is up: whom a former one heard may be gone since."""
        if self._up_since is None:
            return []
        heard = self._tables.heard_since(unit, micros(self._up_since))
        return [node for node in nodes if node.name in heard]

    def up_since(self, unit: Unit) -> int:
        """The time since which the scheduler is up without a gap, in microseconds."""
        return micros(self._up_since or unit.now)

    def has_heard(self, unit: Unit, node: str) -> bool:
        """True if the agent of this node sent a heartbeat since the scheduler is up."""
        agent = self._tables.agent(unit, node) if self._up_since else None
        return agent is not None and self._up_since is not None and agent.heard_at >= micros(self._up_since)

    def is_alive(self, unit: Unit, agent: Agent) -> bool:
        """True if an agent sent a heartbeat within the last lease, since the scheduler is up."""
        recent = agent.heard_at > micros(unit.now) - int(self._ttl * 1_000_000)
        return recent and self._up_since is not None and agent.heard_at >= micros(self._up_since)

    def went_on(self, unit: Unit, job: Job) -> Job:
        """The ranks of a job gave a word: its history says through what they went on."""
        name = job.name
        early = self._up_since is None and name not in self._early  # placed by a former scheduler: this places nothing
        owed = [(job.epoch, STARTED)] if early else self._owed.get(name, [])
        for epoch, words in owed:
            if job.epoch == epoch and job.state in jobs.PLACED:
                job = self._epochs.note(unit, job, f"{words}; its ranks went on")
        if owed:
            unit.on_commit(lambda: self._forget(name, early=early))
        return job

    def _forget(self, job: str, *, early: bool) -> None:
        self._owed.pop(job, None)
        if early:
            self._early.add(job)

    def _returned(self, now: datetime, words: str) -> None:
        placed = [int(state) for state in jobs.PLACED]
        for job in self._host.units.run(lambda unit: self._tables.jobs.select(unit, state=placed)):
            if job.name not in self._early:
                self._owed.setdefault(job.name, []).append((job.epoch, words))
        self._up_since = now
        self._early.clear()

    def _look(self, unit: Unit) -> bool:
        limit = micros(unit.now) - int(self._ttl * 1_000_000)
        if self._looked is None or not 0 <= (unit.now - self._looked).total_seconds() <= self._gap:
            return False  # it may have been away: its next look says so first
        if self._up_since and micros(self._up_since) > limit:
            return False
        found = False
        for name in self._tables.silent_nodes(unit, limit, (NODE_STATE_READY, NODE_STATE_DRAINING, NODE_STATE_LEFT)):
            locked = self._tables.nodes.lock(unit, name)
            locked.state = NODE_STATE_LOST
            locked.reason = f"not heard of for {self._ttl:g} s; its slots come back when its agent does"
            lost = self._tables.nodes.put(unit, locked)
            self._epochs.forsake(unit, lost, list(lost.assignments), f"lost (not heard of for {self._ttl:g} s)")
            self._epochs.wake_queue(unit)
            found = True
        return found


class LostNodes:
    """A loop of the leader: what its watch saw is decided here."""

    name, led = "scheduler lost nodes", True

    def __init__(self, watch: NodeWatch) -> None:
        self.interval, self._watch = watch.interval, watch

    def step(self) -> bool:
        return self._watch.declare_lost()
