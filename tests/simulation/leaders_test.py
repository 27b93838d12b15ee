"""Two schedulers on one database: the leader is killed or stopped at any of its transactions, and no gang is placed
twice; what a leader writes, it writes in its own term.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Executable, SelectBase, Table, select

from tests.scale import SOAK, rotation, scale
from tutti.backbone import Database, Isolation, ManualClock, Transaction
from tutti.chassis.events.event import Event
from tutti.chassis.service import Loop
from tutti.chassis.store.leases import Leases
from tutti.chassis.store.tables import tables_of
from tutti.chassis.store.terms import FencedTransaction, term_of
from tutti.chassis.store.unit import Units
from tutti.chassis.work.leadership import LEADER, Leadership
from tutti.chassis.work.reconciler import Reconciler
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE
from tutti.scheduler import gangs, jobs
from tutti.scheduler.service import build
from tutti.scheduler.walks_test import JOBS, Walk, hasty_room
from tutti.scheduler.world_test import METADATA, World, WorldHost

T = TypeVar("T")
TTL = 1.5
MOST_SECONDS = 6
A_WALK, WALKS = 50, 20
"""Strikes in a walk, and walks in a soak; a run of the suite has two of them, other ones after each commit."""
ACTIONS = ("work", "commit", "release", "lose", "silence", "speak", "replace", "reshape", "wait")


class Peril(Enum):
    KILLED_BEFORE = "killed before a transaction"
    KILLED_AFTER = "killed after a commit whose answer it did not hear"
    STOPPED = "stopped before a transaction until another leads, and woken up"


class Killed(BaseException):
    """The process of the replica is gone; no Exception, so that nobody in it can go on."""


class Recorded:
    """A transaction that knows whether it wrote."""

    def __init__(self, inner: Transaction) -> None:
        self._inner, self.wrote = inner, False

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> Any:
        self.wrote |= not isinstance(statement, SelectBase)
        return self._inner.execute(statement, parameters)

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        self.wrote |= bool(rows)
        self._inner.insert(table, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Perilous:
    """The database as one replica has it: a peril strikes at a transaction of its leader's loops."""

    def __init__(self, replica: "Replica", database: Database) -> None:
        self._replica, self._database = replica, database

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        world, term = self._replica.world, term_of(self._replica.units)
        if term is None:
            return self._database.run(fn, isolation=isolation)

        def work(tx: Transaction) -> T:
            recorded = Recorded(tx)
            result = fn(recorded)
            leases = tables_of(METADATA).leases
            row = tx.execute(select(leases).where(leases.c.name == LEADER)).one()
            if recorded.wrote and (row.holder, row.epoch) != (term.lease.holder, term.number):
                world.stale.append(f"term {term.number} wrote in term {row.epoch}")
            return result

        peril = world.strikes()
        if peril is Peril.KILLED_BEFORE:
            self._replica.die()
        if peril is Peril.STOPPED:
            self._replica.stop_until_another_leads()
        result = self._database.run(work, isolation=isolation)
        if peril is Peril.KILLED_AFTER:
            self._replica.die()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class Actor:
    """A loop that is stepped when it is due or woken, as by the thread that it has in a process."""

    def __init__(self, loop: Loop, clock: ManualClock) -> None:
        self._loop, self._clock, self._due = loop, clock, 0.0
        self._woken: threading.Event = getattr(loop, "woken", None) or threading.Event()

    def step_if_due(self) -> bool:
        if self._clock.monotonic() < self._due and not self._woken.is_set():
            return False
        self._woken.clear()
        busy = self._loop.step()
        self._due = self._clock.monotonic() + (0.0 if busy else self._loop.interval)
        return True


class Replica:
    def __init__(self, world: "Replicated", number: int) -> None:
        self.world, self.stopped = world, False
        database: Any = Perilous(self, world.database)
        self.units = Units(database, "scheduler", METADATA, clock=world.clock, randomness=world.randomness)
        host = WorldHost(
            database, world.blobs, world.clock, self.units, METADATA, {"committer": world.committer}, world.randomness
        )
        self.service = build(host)
        self.units.facts = frozenset(self.service.facts)
        self.leadership = Leadership(
            self.units, Leases(METADATA), holder=f"{number}/1@replica:{number}", ttl=TTL, clock=world.clock
        )
        loops: list[Loop] = [
            self.leadership.lead(loop) if getattr(loop, "led", False) else loop for loop in self.service.loops
        ]
        self.actors = [Actor(loop, world.clock) for loop in (self.leadership, *loops)]

    def die(self) -> None:
        self.world.replicas.remove(self)
        raise Killed

    def stop_until_another_leads(self) -> None:
        self.stopped = True
        self.world.await_leader()
        self.stopped = False

    def reconciler(self) -> Reconciler:
        return next(loop for loop in self.service.loops if isinstance(loop, Reconciler))


class Replicated(World):
    """A scheduler of two replicas; a call reaches any of them that is not stopped."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance, self.replicas, self.stale = chance, list[Replica](), list[str]()
        self.struck: Counter[Peril] = Counter()
        self._starts, self._left = 0, 0
        self._peril: Peril | None = None
        super().__init__(folder)

    @property
    def api(self) -> Any:
        return self._any().service.serves[0].api

    @property
    def tables(self) -> Any:
        return self.api.tables

    def hear(self, checkpoint: Checkpoint) -> None:
        event = Event("1", "", checkpoint.name, 1, self.clock.now(), "", checkpoint)
        replica = self._any()
        handler = next(each.handler for each in replica.service.consumes if each.message is Checkpoint)
        replica.units.run(lambda unit: handler(unit, [event]))
        self.settle()

    def start(self) -> None:
        """Replicas start until there are two."""
        while len(self.replicas) < 2:
            self._starts += 1
            self.replicas.append(Replica(self, self._starts))
        self.database.create(METADATA)

    def expose(self) -> None:
        """One of the next transactions of the leader is struck."""
        self._left, self._peril = self.chance.randint(1, 12), self.chance.choice(list(Peril))

    def spare(self) -> None:
        self._left = 0

    def strikes(self) -> Peril | None:
        self._left -= 1
        if self._left != 0 or self._peril is None:
            return None
        self.struck[self._peril] += 1
        return self._peril

    def leader(self) -> Replica | None:
        return next((each for each in self.replicas if not each.stopped and each.leadership.term()), None)

    def await_leader(self) -> None:
        for _ in range(MOST_SECONDS):
            self.clock.advance(1)
            self.settle()
            if self.leader() is not None:
                return
        raise AssertionError(f"nobody leads after {MOST_SECONDS} s")

    def recover(self) -> None:
        """Restart killed processes; another replica leads and looks at every job."""
        self.start()
        self.await_leader()
        for name in JOBS:
            self.wake(name)
        self.settle()

    def wake(self, job: str) -> None:
        self._any().reconciler().wake(job)

    def pass_time(self, seconds: float) -> None:
        """Agents that are not silent are heard, time passes, and the loops rest."""
        while seconds > 0:
            for agent in self.agents:
                if not agent.silent:
                    agent.heartbeat()
            moment = min(seconds, 1.0)
            self.clock.advance(moment)
            seconds -= moment
            self.settle()

    def settle(self) -> None:
        """Step the loops that are due or woken until all rest and followers have handed on what woke them."""
        handed_on = False
        for _ in range(400):
            living = [each for each in self.replicas if not each.stopped]
            if any([actor.step_if_due() for replica in living for actor in replica.actors]):
                handed_on = False
            elif handed_on:
                return
            else:
                handed_on = True
                for replica in living:
                    if replica.leadership.term() is not None:
                        replica.leadership.step()
        raise AssertionError("the loops never rest")

    def _any(self) -> Replica:
        return self.chance.choice([each for each in self.replicas if not each.stopped])


def harm(least: int, tmp_path: Path, *, first: int = 1) -> None:
    """Strike leaders at least `least` times, in walks that are numbered from `first`: its number repeats a walk.

    Raises AssertionError where a promise is broken.
    """
    struck: Counter[Peril] = Counter()
    placed, number_of_walk = 0, first - 1
    while struck.total() < least:
        number_of_walk += 1
        chance, folder = random.Random(number_of_walk), tmp_path / str(number_of_walk)
        folder.mkdir()
        walk = Walk(folder, lambda folder, chance=chance: Replicated(folder, chance))  # type: ignore[misc]
        world: Any = walk.world
        world.settle()
        while world.struck.total() < A_WALK:
            action, number = chance.choice(ACTIONS), chance.randrange(8)
            if action != "replace":  # the agents of a walk do not register again when no answer came
                world.expose()
            work: Callable[[], None] | None = partial(walk.act, action, number)
            while work is not None:
                try:
                    work()
                    work = None
                except Killed:  # and perhaps the next leader, in its first transactions
                    world.expose()
                    work = world.recover
            world.spare()
            walk.check()
            assert world.stale == [], f"walk {number_of_walk}"
        walk.heal()
        for name in JOBS:
            job = world.job(name)
            assert job.state in jobs.ENDED, f"walk {number_of_walk}: {name}: {job.reason}"
            placed += job.epoch
            if job.state == JOB_STATE_DONE:
                assert job.state_digest == "state-20", f"walk {number_of_walk}"
        struck += world.struck
    counts = ", ".join(f"{count} {peril.value}" for peril, count in struck.items())
    walks = f"walks {first} to {number_of_walk}"
    print(f"{struck.total()} leaders in {walks}, {placed} epochs: {counts}")
    assert placed > (number_of_walk - first + 1) * len(JOBS), walks


def test_no_gang_is_placed_twice_by_leaders_that_are_killed_or_stopped(tmp_path: Path) -> None:
    harm(scale(test=2 * A_WALK, soak=WALKS * A_WALK), tmp_path, first=1 if SOAK else 1 + rotation() % (WALKS - 1))


def test_slots_that_are_given_away_before_they_are_released_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gangs, "room_of", hasty_room)
    with pytest.raises(AssertionError):
        harm(100, tmp_path)


def test_without_the_fence_a_leader_writes_in_the_term_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FencedTransaction, "_fence", lambda self: None)
    with pytest.raises(AssertionError, match="wrote in term"):
        harm(100, tmp_path)
