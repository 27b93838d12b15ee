"""A scheduler that is killed before and after its commits: whoever takes over finds every slot given once."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.scale import scale
from tutti.backbone import Database, Isolation, Transaction
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE
from tutti.scheduler import gangs, jobs
from tutti.scheduler.walks_test import JOBS, Walk, hasty_room

T = TypeVar("T")
A_WALK = 10
ACTIONS = ("work", "commit", "release", "lose", "silence", "speak", "replace", "reshape", "wait")


class Killed(BaseException):
    """The process of the scheduler is gone; no Exception, so that nobody in it can go on."""


class Dying:
    """A database whose client is killed at a transaction: before its commit, or after it with the answer unheard."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.left, self.after, self.kills = 0, False, 0

    def run(self, fn: Callable[[Transaction], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        self.left -= 1
        struck = self.left == 0
        if struck and not self.after:
            self._kill()
        done = self._database.run(fn, isolation=isolation)
        if struck:
            self._kill()
        return done

    def _kill(self) -> None:
        self.kills += 1
        raise Killed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def kill(least: int, tmp_path: Path) -> None:
    """Kill at least so often, in walks of some kills each. AssertionError where a promise is broken."""
    kills = walks = placed = 0
    while kills < least:
        walks += 1
        chance, folder = random.Random(walks), tmp_path / str(walks)
        folder.mkdir()
        walk = Walk(folder)
        walk.world.database = dying = Dying(walk.world.database)  # type: ignore[assignment]
        walk.world.start()
        walk.world.settle()
        while dying.kills < A_WALK:
            action, number = chance.choice(ACTIONS), chance.randrange(8)
            if action != "replace":  # the agents of a walk do not register again when no answer came
                dying.left, dying.after = chance.randint(1, 12), chance.random() < 0.5
            try:  # a walk is repeated by its number
                walk.act(action, number)
            except Killed:
                dying.left = 0
                walk.world.start()
                for name in JOBS:
                    walk.world.wake(name)
                walk.world.settle()
            dying.left = 0
            walk.check()
        walk.heal()
        for name in JOBS:
            job = walk.world.job(name)
            assert job.state in jobs.ENDED, f"walk {walks}: {name}: {job.reason}"
            placed += job.epoch
            if job.state == JOB_STATE_DONE:
                assert job.state_digest == "state-20", f"walk {walks}"
        kills += dying.kills
    print(f"{kills} kills in {walks} walks, {placed} epochs")
    assert placed > walks * len(JOBS)


def test_no_gang_is_placed_twice_however_often_the_scheduler_is_killed(tmp_path: Path) -> None:
    kill(scale(test=60, soak=1000), tmp_path)


def test_kills_find_slots_that_are_given_away_before_they_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gangs, "room_of", hasty_room)
    with pytest.raises(AssertionError):
        kill(100, tmp_path)
