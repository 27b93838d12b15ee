"""The sealer over a real database and blob store, and what verification says of those who touch either."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import MetaData, delete, update

from tutti.backbone import ManualClock, SystemRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store import audit
from tutti.chassis.store.auditseals import Sealer, Verdict, verify
from tutti.chassis.store.seals import key_of
from tutti.chassis.store.tables import tables_of
from tutti.chassis.store.unit import Unit, Units

YEAR = timedelta(days=365)
ENGINEER = Principal.of_role(Role.ENGINEER)


class Trail:
    """The audit trail of one service, with two copies of its sealer."""

    def __init__(self, folder: Path, database: EmbeddedDatabase, clock: ManualClock) -> None:
        metadata = MetaData()
        self.clock, self.blobs = clock, EmbeddedBlobs(folder / "blobs")
        tables_of(metadata)
        self.units = Units(database, "scheduler", metadata, clock=clock, randomness=SystemRandomness())
        database.create(metadata, None)
        self.sealer, self.other = (Sealer(self.units, self.blobs) for _ in range(2))

    def change(self, resource: str) -> None:
        self.units.run(lambda unit: audit.changed(unit, ENGINEER, "CancelJob", resource, 2))

    def refuse(self) -> None:
        self.units.run(lambda unit: audit.refused(unit, "CancelJob", "PERMISSION_DENIED", address="192.0.2.7"))

    def seal(self, sealer: Sealer | None = None) -> None:
        while (sealer or self.sealer).step():
            pass

    def verify(self, expected: str = "") -> Verdict:
        return verify(self.units, self.blobs, YEAR, expected)

    def touch(self, work: Callable[[Unit], object]) -> tuple[str, ...]:
        """What verification says after somebody wrote to the database."""
        self.units.run(lambda unit: (work(unit), None)[1])
        return self.verify().problems


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[Trail]:
    clock = ManualClock()
    with closing(EmbeddedDatabase(tmp_path / "scheduler.db", clock=clock)) as database:
        made = Trail(tmp_path, database, clock)
        for resource in ("jobs/a", "jobs/b", "jobs/c"):
            made.change(resource)
            made.seal()
        yield made
        made.blobs.close()


def test_what_is_recorded_is_sealed_once_by_whichever_copy_is_first(trail: Trail) -> None:
    assert (trail.verify().batches, trail.verify().records, trail.verify().problems) == (3, 3, ())
    trail.change("jobs/d")
    trail.seal(trail.other)  # it had not looked before
    trail.seal()
    found = trail.verify()
    assert (found.batches, found.records, found.unsealed, found.problems) == (4, 4, 0, ())
    assert found.head.startswith("4:blake3:")
    assert trail.verify(found.head).problems == ()


def test_refusals_are_sealed_when_their_minute_is_over_with_their_number(trail: Trail) -> None:
    for _ in range(3):
        trail.refuse()
    trail.seal()
    assert (trail.verify().records, trail.verify().unsealed) == (3, 1)
    trail.clock.advance(61)
    trail.seal()
    found = trail.verify()
    assert (found.records, found.unsealed, found.problems) == (4, 0, ())
    assert b'"times":3' in trail.blobs.get(key_of("scheduler", 4))


def test_a_record_that_was_changed_or_removed_in_the_database_is_named(trail: Trail) -> None:
    table = trail.units.tables.audit
    (said,) = trail.touch(lambda unit: unit.tx.execute(update(table).where(table.c.seq == 2).values(user="users/eve")))
    assert said.startswith("record 2 (users/engineer: CancelJob) was changed in the database")
    said = trail.touch(lambda unit: unit.tx.execute(delete(table).where(table.c.seq == 2)))[0]
    assert "record 2 (users/engineer: CancelJob) was removed from the database" in said
    assert b"jobs/b" in trail.blobs.get(key_of("scheduler", 2))  # where it can still be read


def test_a_batch_that_was_removed_or_written_anew_is_named(trail: Trail, tmp_path: Path) -> None:
    head = trail.verify().head
    first = trail.blobs.get(key_of("scheduler", 1))
    forged = re.sub(rb"users/engineer", b"users/operator", first)
    trail.blobs.delete(key_of("scheduler", 1))
    trail.blobs.put_if_absent(key_of("scheduler", 1), forged)
    problems = trail.verify().problems
    assert "audit/scheduler/000000000002 does not continue the batch before" in problems[0]
    assert "was changed in the database" in problems[1]
    trail.blobs.delete(key_of("scheduler", 1))
    trail.blobs.put_if_absent(key_of("scheduler", 1), first)
    trail.blobs.delete(key_of("scheduler", 3))
    assert trail.verify().problems == ()  # the newest batch: nothing in the chain tells
    assert "has no batch 3:blake3:" in trail.verify(head).problems[0]


def test_records_that_were_pruned_by_age_are_not_missed(trail: Trail) -> None:
    trail.clock.advance(YEAR.total_seconds() + 1)
    trail.change("jobs/new")
    trail.seal()
    assert trail.units.run(lambda unit: audit.prune(unit, unit.now - YEAR)) == 3
    assert trail.verify().problems == ()


def test_a_sealer_that_starts_again_seals_what_was_missed_and_nothing_twice(trail: Trail) -> None:
    trail.change("jobs/d")
    trail.seal(Sealer(trail.units, trail.blobs))
    found = trail.verify()
    assert (found.batches, found.records, found.unsealed) == (4, 4, 0)
