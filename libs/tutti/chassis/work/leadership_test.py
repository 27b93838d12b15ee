"""One replica leads at a time: its loops alone are stepped, its writes are fenced by its term."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, MetaData, Table, insert, select, update

from tutti.backbone import ManualClock, SeededRandomness
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by, current_cause
from tutti.chassis.identity.principal import Method, Principal, attributed
from tutti.chassis.store import origins, wakes
from tutti.chassis.store.leases import Leases
from tutti.chassis.store.terms import Deposed, under
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.work.leadership import LATE_SECONDS, LEADER, Leadership
from tutti.chassis.work.reconciler import Reconciler

TTL = 5.0


class Writing:
    """A led loop that writes the number of its step."""

    name, interval, led = "writing", 1.0, True

    def __init__(self, replica: "Replica") -> None:
        self.replica, self.steps = replica, 0

    def step(self) -> bool:
        self.steps += 1
        self.replica.write(self.steps)
        return False


class Replica:
    """A process of the service: leadership, a loop that writes, and a reconciler."""

    def __init__(self, bench: "Bench", holder: str) -> None:
        self.bench = bench
        self.units = Units(
            bench.database, "bench", bench.metadata, clock=bench.clock, randomness=SeededRandomness(holder)
        )
        self.leadership = Leadership(self.units, Leases(bench.metadata), holder=holder, ttl=TTL, clock=bench.clock)
        self.writing = Writing(self)
        self.advanced: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.served: dict[str, Principal | None] = {}
        self.reconciler = Reconciler(
            "things",
            self.host,
            open=lambda unit: self.open,
            advance=self.advance,
            tell=lambda unit, name, trouble: None,
        )
        self.led = [self.leadership.lead(each) for each in (self.writing, self.reconciler)]

    @property
    def host(self) -> Any:
        class _Host:
            service, units, clock, randomness = "bench", self.units, self.bench.clock, SeededRandomness(1)

        return _Host

    def advance(self, name: str) -> None:
        self.advanced.append((name, current_cause().request_id))
        self.served[name] = current_cause().principal

    def write(self, number: int) -> None:
        self.units.run(lambda unit: unit.tx.execute(insert(self.bench.rows), {"number": number}))

    def turn(self) -> None:
        self.leadership.step()
        for loop in self.led:
            while loop.step():
                pass


class Bench:
    def __init__(self) -> None:
        self.metadata, self.clock = MetaData(), ManualClock()
        self.rows = Table("rows", self.metadata, Column("number", BigInteger))
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.a, self.b = Replica(self, "a/1@a:1"), Replica(self, "b/1@b:2")
        self.database.create(self.metadata)

    def written(self) -> list[int]:
        return self.a.units.run(lambda unit: list(unit.tx.execute(select(self.rows.c.number)).scalars()))

    def turns(self, *replicas: Replica, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            for each in replicas:
                each.turn()
            self.clock.advance(0.5)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.database.close()


def terms(bench: Bench) -> tuple[int | None, int | None]:
    a, b = bench.a.leadership.term(), bench.b.leadership.term()
    return a.number if a else None, b.number if b else None


def test_one_of_two_leads_for_as_long_as_it_renews(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=10 * TTL)
    assert terms(bench) == (1, None)
    assert bench.b.writing.steps == 0
    assert len(bench.written()) == bench.a.writing.steps > 0
    assert str(bench.b.leadership.seen) == "a:1 leads in term 1"
    assert str(bench.a.leadership.seen) == "a:1 (this process) leads in term 1"


def test_a_leader_that_is_gone_is_succeeded_after_its_lease_in_a_higher_term(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    bench.turns(bench.b, seconds=TTL - 1)
    assert terms(bench)[1] is None
    bench.turns(bench.b, seconds=2)
    assert terms(bench)[1] == 2


def test_nobody_leads_once_a_lease_lapsed_long_ago(bench: Bench) -> None:
    def leads() -> bool:
        return bench.b.units.run(bench.b.leadership.leader).works

    assert not leads()
    bench.turns(bench.a, seconds=1)
    assert leads()
    bench.clock.advance(TTL + LATE_SECONDS - 2)
    assert leads()  # another one has time to take over
    bench.clock.advance(3)
    assert not leads()
    bench.turns(bench.b, seconds=2 * TTL)
    assert leads()


def test_a_leader_that_ends_in_order_is_succeeded_at_once(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    bench.a.leadership.release()
    bench.b.turn()
    assert terms(bench) == (None, 2)


def test_a_leader_that_slept_through_its_lease_writes_nothing(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    slept = bench.a.leadership.term()
    assert slept is not None
    bench.turns(bench.b, seconds=2 * TTL)
    before = bench.written()
    with under(slept), pytest.raises(Deposed, match="term 1"):
        bench.a.write(1000)
    assert bench.written() == before


def test_a_refused_write_ends_the_term_before_the_lease_is_looked_at(bench: Bench) -> None:
    bench.turns(bench.a, seconds=1)
    leases = Leases(bench.metadata)
    bench.b.units.run(lambda unit: leases.vacate(unit, LEADER, of="a"))
    assert bench.b.units.run(lambda unit: leases.acquire(unit, LEADER, "b/1@b:2", TTL)) is not None
    assert terms(bench)[0] == 1
    before = bench.written()
    assert bench.a.led[0].step() is False
    assert terms(bench)[0] is None
    assert bench.written() == before


def test_a_leader_without_its_database_stops_before_another_can_lead(bench: Bench) -> None:
    bench.turns(bench.a, seconds=1)
    bench.clock.advance(TTL)
    steps = bench.a.writing.steps
    assert bench.a.led[0].step() is False
    assert (terms(bench)[0], bench.a.writing.steps) == (None, steps)


def test_a_fence_that_was_undone_with_its_savepoint_is_set_again(bench: Bench) -> None:
    bench.turns(bench.a, seconds=1)
    term = bench.a.leadership.term()
    assert term is not None

    def work(unit: Unit) -> None:
        def undone() -> None:
            unit.tx.execute(insert(bench.rows), {"number": 7})
            raise KeyError

        with pytest.raises(KeyError):
            unit.savepoint(undone)
        assert not unit.tx._fenced  # type: ignore[attr-defined]
        unit.tx.execute(insert(bench.rows), {"number": 8})
        assert unit.tx._fenced  # type: ignore[attr-defined]

    with under(term):
        bench.a.units.run(work)
    assert 8 in bench.written()
    assert 7 not in bench.written()


def test_reading_takes_no_lock_and_is_not_refused(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    slept = bench.a.leadership.term()
    assert slept is not None
    bench.turns(bench.b, seconds=2 * TTL)
    with under(slept):
        read = bench.written()
    assert read == bench.written()


def test_other_databases_are_not_fenced_by_the_term(bench: Bench) -> None:
    other = Units(bench.database, "other", bench.metadata, clock=bench.clock, randomness=SeededRandomness(9))
    bench.turns(bench.a, bench.b, seconds=1)
    slept = bench.a.leadership.term()
    bench.turns(bench.b, seconds=2 * TTL)
    assert slept is not None
    with under(slept):
        other.run(lambda unit: unit.tx.execute(insert(bench.rows), {"number": 5}))


def test_a_name_that_was_woken_where_nobody_leads_is_advanced_by_the_leader_with_its_cause(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    with caused_by(Cause(request_id="request-1")):
        bench.b.reconciler.wake("things/x")
        bench.b.reconciler.wake("things/y")
        bench.b.reconciler.wake("things/x")
    bench.turns(bench.b, bench.a, seconds=1)
    assert sorted(bench.a.advanced) == [("things/x", "request-1"), ("things/y", "request-1")]
    assert bench.b.advanced == []
    assert bench.a.units.run(lambda unit: wakes.take(unit, ["bench things reconciler"])) == []


def test_a_name_that_the_dead_leader_was_woken_for_is_advanced_by_the_next(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    bench.b.reconciler.wake("things/x")
    bench.turns(bench.b, seconds=2 * TTL)
    assert [name for name, _ in bench.b.advanced] == ["things/x"]


def test_a_new_leader_looks_at_everything_that_is_open(bench: Bench) -> None:
    bench.turns(bench.a, bench.b, seconds=1)
    bench.a.leadership.release()
    bench.b.open = ["things/z"]
    bench.turns(bench.b, seconds=1)
    assert [name for name, _ in bench.b.advanced] == ["things/z"]


def test_the_only_process_of_a_database_leads_without_renewing(bench: Bench) -> None:
    bench.a.leadership.sole = True
    bench.a.reconciler.wake("things/x")
    bench.a.led[1].step()  # before it leads: nothing is handed to anybody
    bench.turns(bench.a, seconds=1)
    bench.clock.advance(100 * TTL)
    assert terms(bench)[0] == 1
    assert [name for name, _ in bench.a.advanced] == ["things/x"]


def test_a_database_that_fails_over_to_a_copy_without_the_last_term_lets_one_leader_write(bench: Bench) -> None:
    """The number of the lost term is given again, to another holder; the fence compares both."""
    bench.turns(bench.a, bench.b, seconds=1)
    leases = bench.a.units.tables.leases
    row = bench.a.units.run(lambda unit: unit.tx.execute(select(leases)).one()._asdict())
    bench.a.leadership.release()
    bench.turns(bench.b, seconds=1)
    lost = bench.b.leadership.term()
    assert lost is not None
    assert lost.number == 2
    bench.a.units.run(lambda unit: unit.tx.execute(update(leases).values(row)))  # what the standby had
    third = Replica(bench, "c/1@c:3")
    bench.turns(third, seconds=2 * TTL)
    assert third.leadership.seen.term == lost.number
    before = bench.written()
    with under(lost), pytest.raises(Deposed):
        bench.b.write(1000)
    assert bench.written() == before


def test_two_processes_of_one_instance_take_turns_and_never_write_in_one_term(bench: Bench) -> None:
    """A data directory that was copied: each start frees the leadership of the instance, as after its own death."""
    bench.turns(bench.a, seconds=1)
    slept = bench.a.leadership.term()
    twin = Replica(bench, "a/2@a:2")
    leases = Leases(bench.metadata)
    twin.units.run(lambda unit: leases.vacate(unit, LEADER, of="a"))
    bench.turns(twin, bench.a, seconds=1)
    term = twin.leadership.term()
    assert term is not None
    assert (term.number, bench.a.leadership.term()) == (2, None)
    assert slept is not None
    with under(slept), pytest.raises(Deposed):
        bench.a.write(1000)


def test_work_is_done_for_whoever_asked_for_it_and_not_for_whoever_woke_it(bench: Bench) -> None:
    """An event of a node comes first after a restart; its agent reported what a run of somebody's waits for."""
    ada = Principal("users/ada", frozenset({Role.ENGINEER}), "tenants/lab", Method.SESSION)
    with caused_by(Cause(principal=ada)):
        bench.a.units.run(lambda unit: origins.keep(unit, "asked"))
    bench.turns(bench.a, seconds=1)
    with caused_by(Cause("event", principal=attributed("nodes/a"))):
        bench.a.reconciler.wake("asked")
        bench.a.reconciler.wake("nobody's")
    bench.turns(bench.a, seconds=1)
    assert bench.a.advanced == [("asked", "event"), ("nobody's", "event")]
    assert bench.a.served == {"asked": attributed("users/ada", "tenants/lab"), "nobody's": None}
