"""The watch over nodes: declares those lost that gave no word for a TTL.

Promises: only time counts during which the scheduler itself was up and had its database; after any gap everybody has a
whole TTL again, and the history of jobs whose ranks went on meanwhile says so.
"""

from datetime import datetime

from tutti.chassis.service import Host
from tutti.chassis.tables import micros
from tutti.chassis.unit import Unit
from tutti.contracts.scheduler.v1 import NODE_STATE_DRAINING, NODE_STATE_LOST, NODE_STATE_READY
from tutti.scheduler import jobs
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.tables import Tables

INTERVAL_SECONDS = 1.0


class NodeWatch:
    """A loop of the chassis; `step` looks once."""

    name = "scheduler node watch"

    def __init__(self, host: Host, tables: Tables, epochs: Epochs, ttl_seconds: float) -> None:
        self._host, self._tables, self._epochs, self._ttl = host, tables, epochs, ttl_seconds
        self.interval = min(INTERVAL_SECONDS, ttl_seconds / 5)
        # Between two looks that are further apart than this, the scheduler counts as having been away.
        self._gap = max(ttl_seconds / 3, 2 * self.interval)
        self._up_since: datetime | None = None
        self._looked: datetime | None = None

    def step(self) -> bool:
        now = self._host.units.run(lambda unit: unit.now)
        if self._looked is None:
            self._returned(now, "the scheduler was started again")
        elif not 0 <= (away := (now - self._looked).total_seconds()) <= self._gap:
            self._returned(now, f"the scheduler was away for {away:.0f} s")
        self._looked = now
        since = micros(self._up_since) if self._up_since else 0
        return self._host.units.run(lambda unit: self._look(unit, since))

    def _returned(self, now: datetime, words: str) -> None:
        def note(unit: Unit) -> None:
            for job in self._tables.jobs.select(unit, state=[int(state) for state in jobs.PLACED]):
                self._epochs.note(unit, self._tables.jobs.lock(unit, job.name), f"{words}; its ranks went on")

        self._host.units.run(note)
        self._up_since = now

    def _look(self, unit: Unit, up_since: int) -> bool:
        """Whether a node was declared lost."""
        limit = micros(unit.now) - int(self._ttl * 1_000_000)
        if up_since > limit:
            return False
        found = False
        for node in self._tables.nodes.select(unit, state=[int(NODE_STATE_READY), int(NODE_STATE_DRAINING)]):
            agent = self._tables.agent(unit, node.name)
            if agent is not None and agent.heard_at > limit:
                continue
            locked = self._tables.nodes.lock(unit, node.name)
            locked.state = NODE_STATE_LOST
            locked.reason = f"not heard of for {self._ttl:g} s; its slots come back when its agent does"
            lost = self._tables.nodes.put(unit, locked)
            self._epochs.forsake(unit, lost, list(lost.assignments), f"lost (not heard of for {self._ttl:g} s)")
            self._epochs.wake_queue(unit)
            found = True
        return found
