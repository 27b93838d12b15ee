"""Rate limits: never more than burst and rate allow. That holds for concurrent charges, too: tests/contract."""

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import MetaData

from tutti.backbone import ManualClock, SeededRandomness
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.store.limits import Limit, Limits
from tutti.chassis.store.unit import Units

LIMIT = Limit(burst=5, per_second=2.0)
_keys = itertools.count()


class Bench:
    def __init__(self, folder: Path) -> None:
        metadata, self.clock = MetaData(), ManualClock()
        self.database = EmbeddedDatabase(folder / "x.db", clock=self.clock, inline=True)
        self.units = Units(self.database, "access", metadata, clock=self.clock, randomness=SeededRandomness("x"))
        self.limits = Limits(metadata)
        self.database.create(metadata)

    def charge(self, key: str) -> float:
        return self.units.run(lambda unit: self.limits.charge(unit, key, LIMIT))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("limits"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=40))
def test_what_is_let_through_never_exceeds_the_limit(bench: Bench, pauses: list[int]) -> None:
    key, passed = f"key-{next(_keys)}", list[float]()
    for pause in pauses:
        bench.clock.advance(pause / 1000)
        wait = bench.charge(key)
        if wait:
            assert len(passed) >= LIMIT.burst
            bench.clock.advance(wait)  # the wait that was named is enough
            assert bench.charge(key) == 0
        passed.append(bench.clock.monotonic())
        for at, begin in enumerate(passed):
            assert len(passed) - at <= LIMIT.burst + (passed[-1] - begin) * LIMIT.per_second + 0.01


def test_keys_do_not_share_a_limit_and_rows_that_limit_nothing_are_deleted(bench: Bench) -> None:
    assert [bench.charge("a") > 0 for _ in range(6)] == [False] * 5 + [True]
    assert bench.charge("b") == 0
    bench.clock.advance(0.6)
    bench.units.run(bench.limits.prune)
    assert [bench.charge("a") > 0 for _ in range(2)] == [False, True]  # as if nothing had been deleted
    assert [bench.charge("b") > 0 for _ in range(6)] == [False] * 5 + [True]
