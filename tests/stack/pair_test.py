"""Decisions of the promoter on a model of the pair: any order of deaths, returns and commits, a promoter that is killed
between its record and its act, or sees what was true a moment ago.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORIES, TURNS = 400, 60


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "deploy" / "local"))
    import pair

    return pair


@dataclass
class Server:
    alive: bool = False
    recovers: bool = False
    rows: set[int] = field(default_factory=set)
    holds: bool = False
    """Commits wait for the standby."""
    follows: int = 0
    """The term that its data follow."""


class World:
    """Two servers, the record, and what clients were told of. `careless` is the control: LET_GO is not recorded."""

    def __init__(self, pair: ModuleType, seed: int, *, careless: bool = False) -> None:
        self.pair, self.dice, self.careless = pair, random.Random(seed), careless
        self.record = pair.Record()
        self.servers = {name: Server() for name in pair.DATABASES}
        self.told: set[int] = set()
        self.cut = False
        self.promotions = self.commits = 0

    def streams(self) -> bool:
        primary, standby = self.servers[self.record.primary], self.servers[self.record.standby]
        return (
            primary.alive
            and standby.alive
            and standby.recovers
            and standby.follows == self.record.term
            and not self.cut
        )

    def happen(self) -> None:
        primary, standby = self.servers[self.record.primary], self.servers[self.record.standby]
        what = self.dice.choices(("commit", "primary dies", "standby dies", "cut", "heal"), (60, 5, 5, 5, 25))[0]
        if what == "commit" and primary.alive and not primary.recovers:
            self.commits += 1
            primary.rows.add(self.commits)
            if self.streams():
                standby.rows |= primary.rows
            if self.streams() or not primary.holds:
                self.told.add(self.commits)
        elif what == "primary dies":
            primary.alive = False
        elif what == "standby dies":
            standby.alive = False
        elif what in ("cut", "heal"):
            self.cut = what == "cut"

    def turn(self) -> None:
        pair, primary = self.pair, self.servers[self.record.primary]
        standby = self.servers[self.record.standby]
        seen = pair.Seen(
            primary_lives=primary.alive,
            primary_starts=False,
            primary_answers=primary.alive,
            primary_recovers=primary.recovers,
            standby_lives=standby.alive,
            standby_starts=False,
            streams=self.streams(),
            synchronous=primary.holds,
        )
        act = pair.decide(
            self.record, seen, silent=0.0, apart=self.dice.choice((0.0, 5.0, 60.0)), patience=pair.Patience()
        )
        for _ in range(self.dice.randint(0, 2)):
            self.happen()  # between the look and the act
        self.carry_out(act, killed=self.dice.random() < 0.2)

    def carry_out(self, act: object, *, killed: bool) -> None:
        Act, primary, standby = self.pair.Act, self.servers[self.record.primary], self.servers[self.record.standby]
        if act is Act.PROMOTE:
            self.record = self.record.promoted()
            self.promotions += 1
            if not killed:
                primary.alive = False
                standby.recovers = standby.holds = False
                assert self.told <= standby.rows, "a row that a client was told of is lost"
        elif act is Act.END_RECOVERY:
            primary.holds = primary.recovers = False
            assert self.told <= primary.rows, "a row that a client was told of is lost"
        elif act is Act.START_PRIMARY:
            primary.alive = True
        elif act is Act.LET_GO:
            if not self.careless:
                self.record = self.record.with_eligible(False)
            if not killed:
                primary.holds = False
        elif act is Act.HOLD:
            primary.holds = True
        elif act is Act.CONFIRM and self.streams() and primary.holds:
            standby.rows |= primary.rows
            self.record = self.record.with_eligible(True)
        elif act in (Act.START_STANDBY, Act.REMAKE_STANDBY) and primary.alive and not primary.recovers:
            if standby.follows != self.record.term or act is Act.REMAKE_STANDBY:
                standby.rows, standby.follows = set(primary.rows), self.record.term
            standby.alive = standby.recovers = True


def told_of(pair: ModuleType, seed: int, *, careless: bool = False) -> World:
    world = World(pair, seed, careless=careless)
    for _ in range(TURNS):
        world.happen()
        world.turn()
    return world


def test_no_row_that_a_client_was_told_of_is_lost(pair: ModuleType) -> None:
    worlds = [told_of(pair, seed) for seed in range(STORIES)]
    promotions, told = sum(each.promotions for each in worlds), sum(len(each.told) for each in worlds)
    print(f"{STORIES} stories, {promotions} promotions, {told} rows acknowledged, none lost")
    assert promotions > STORIES / 4


def test_the_pair_is_whole_again_once_nothing_happens(pair: ModuleType) -> None:
    for seed in range(STORIES):
        world = told_of(pair, seed)
        world.cut = False
        world.happen = lambda: None  # type: ignore[method-assign]
        for _ in range(TURNS):
            world.turn()
        assert world.record.eligible, seed
        assert world.told <= world.servers[world.record.primary].rows


def test_a_promoter_without_a_record_loses_rows(pair: ModuleType) -> None:
    def stories() -> None:
        for seed in range(STORIES):
            told_of(pair, seed, careless=True)

    with pytest.raises(AssertionError, match="is lost"):
        stories()


@dataclass(frozen=True)
class Case:
    """State of a pair `silent` seconds after the primary answered, and `apart` seconds after the standby streamed."""

    eligible: bool = False
    primary_starts: bool = False
    primary_answers: bool = False
    standby_starts: bool = False
    silent: float = 0.0
    apart: float = 0.0


@pytest.mark.parametrize(
    ("case", "act"),
    [
        (Case(silent=11, apart=11), "START_PRIMARY"),
        (Case(silent=9, apart=9), "NOTHING"),
        (Case(silent=3600, apart=3600, primary_starts=True), "NOTHING"),
        (Case(silent=11, apart=11, primary_starts=True, eligible=True), "PROMOTE"),
        (Case(primary_answers=True, apart=31), "REMAKE_STANDBY"),
        (Case(primary_answers=True, apart=600, standby_starts=True), "NOTHING"),
        (Case(primary_answers=True, apart=901, standby_starts=True), "REMAKE_STANDBY"),
    ],
)
def test_a_server_that_recovers_is_not_restarted(pair: ModuleType, case: Case, act: str) -> None:
    seen = pair.Seen(
        primary_lives=True,
        primary_starts=case.primary_starts,
        primary_answers=case.primary_answers,
        primary_recovers=False,
        standby_lives=True,
        standby_starts=case.standby_starts,
        streams=False,
        synchronous=False,
    )
    record = pair.Record(eligible=case.eligible)
    assert pair.decide(record, seen, silent=case.silent, apart=case.apart, patience=pair.Patience()).name == act
