"""The sealer over a real database and blob store, and what verification says of those who touch either."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, delete, select, text, update

from tutti.backbone import ManualClock, SystemRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store import audit
from tutti.chassis.store.auditseals import LOOK, REMEMBERED, Sealer, Verdict, acknowledge, digest_of, verify
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
        database.create(metadata)
        self.sealer, self.other = (Sealer(self.units, self.blobs, YEAR) for _ in range(2))

    def change(self, resource: str) -> None:
        self.units.run(lambda unit: audit.changed(unit, ENGINEER, "CancelJob", resource, 2))

    def refuse(self) -> None:
        self.units.run(lambda unit: audit.refused(unit, "CancelJob", "PERMISSION_DENIED", address="192.0.2.7"))

    def seal(self, sealer: Sealer | None = None) -> None:
        while (sealer or self.sealer).step():
            pass

    def verify(self, expected: str = "") -> Verdict:
        return verify(self.units, self.blobs, YEAR, expected)

    def flip(self, number: int, old: bytes, new: bytes) -> None:
        """Change the bytes of a batch at rest."""
        key = key_of("scheduler", number)
        data = self.blobs.get(key)
        assert old in data
        self.blobs.delete(key)
        self.blobs.put_if_absent(key, data.replace(old, new, 1))

    def restart(self) -> Sealer:
        """A sealer of a process that has just started, after its first step."""
        sealer = Sealer(self.units, self.blobs, YEAR)
        while sealer.step():
            pass
        return sealer

    def differences(self) -> list[tuple[str, str]]:
        """Each with the copy that fits."""
        return [(each.place, each.fits) for each in self.verify().differences]

    def acknowledge(self) -> None:
        digest = digest_of(self.verify().differences)
        acknowledge(self.units, self.blobs, YEAR, ENGINEER, digest)

    def execute(self, statement: Any) -> None:
        self.units.run(lambda unit: (unit.tx.execute(statement), None)[1])

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


def test_of_many_records_the_newest_are_remembered_and_none_is_sealed_twice(trail: Trail) -> None:
    many = 3 * REMEMBERED

    def change(unit: Unit) -> None:
        for number in range(many):
            audit.changed(unit, ENGINEER, "CancelJob", f"jobs/{number}", 2)

    trail.units.run(change)
    trail.seal()
    assert trail.sealer.remembered <= 2 * REMEMBERED
    for sealer in (trail.sealer, trail.restart()):
        trail.change("jobs/later")
        trail.seal(sealer)
    found = trail.verify()
    assert (found.records, found.unsealed, found.problems) == (3 + many + 2, 0, ())
    table = trail.units.tables.audit
    trail.execute(update(table).where(table.c.seq == many).values(user="users/eve"))
    trail.change("jobs/d")
    trail.seal()
    assert f"record {many} (users/engineer: CancelJob) was changed in the database" in trail.sealer.trouble


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


def test_a_refusal_is_sealed_however_many_changes_came_in_its_minute(trail: Trail) -> None:
    def change(unit: Unit) -> None:
        for number in range(LOOK + 1):
            audit.changed(unit, ENGINEER, "CancelJob", f"jobs/{number}", 2)

    trail.refuse()
    trail.seal()
    trail.units.run(change)
    trail.seal()
    assert trail.verify().unsealed == 1
    trail.clock.advance(61)
    trail.change("jobs/later")
    trail.seal()
    assert (trail.verify().records, trail.verify().unsealed) == (3 + 1 + LOOK + 1 + 1, 0)


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
    assert trail.differences() == [("batch 1", "database")]
    trail.blobs.delete(key_of("scheduler", 1))
    trail.blobs.put_if_absent(key_of("scheduler", 1), first)
    trail.blobs.delete(key_of("scheduler", 3))
    assert trail.differences() == [("batch 3", "database")]
    trail.execute(delete(trail.units.tables.audit_seals))  # whoever writes to both can hide it from the chain
    assert trail.verify().problems == ()
    assert "has no batch 3:blake3:" in trail.verify(head).problems[0]


def test_records_that_were_pruned_by_age_are_not_missed(trail: Trail) -> None:
    trail.clock.advance(YEAR.total_seconds() + 1)
    trail.change("jobs/new")
    trail.seal()
    assert trail.units.run(lambda unit: audit.prune(unit, unit.now - YEAR)) == 3
    assert trail.verify().problems == ()


def test_a_sealer_that_starts_again_seals_what_was_missed_and_nothing_twice(trail: Trail) -> None:
    trail.change("jobs/d")
    trail.seal(trail.restart())
    found = trail.verify()
    assert (found.batches, found.records, found.unsealed) == (4, 4, 0)


DAMAGES = {
    "of a record": (b"jobs/c", b"jobs/b"),
    "of the link": (b'"previous":"blake3:', b'"previous":"blake2:'),
    "of the syntax": (b'"rows":[', b'"rows":{'),
}


@pytest.mark.parametrize(("old", "new"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_newest_batch_is_named_and_not_sealed_over(trail: Trail, old: bytes, new: bytes) -> None:
    whole = trail.blobs.get(key_of("scheduler", 3))
    head = trail.verify().head
    trail.flip(3, old, new)
    trail.change("jobs/d")
    for sealer in (trail.sealer, trail.restart()):
        trail.seal(sealer)
        assert "audit/scheduler/000000000003 was changed" in sealer.trouble
    found = trail.verify()
    assert trail.differences() == [("batch 3", "database")]
    assert (found.batches, found.records, found.unsealed, found.head) == (3, 3, 1, head)
    trail.blobs.delete(key_of("scheduler", 3))
    trail.blobs.put_if_absent(key_of("scheduler", 3), whole)
    restarted = trail.restart()
    assert (restarted.trouble, trail.verify().batches, trail.verify().problems) == ("", 4, ())


def test_a_damaged_older_batch_is_named_and_the_database_is_not_blamed(trail: Trail) -> None:
    trail.flip(2, b"users/engineer", b"users/enginees")
    assert trail.differences() == [("batch 2", "database")]


def test_a_changed_record_blocks_the_sealer_and_the_batch_fits(trail: Trail) -> None:
    table = trail.units.tables.audit
    trail.execute(update(table).where(table.c.seq == 2).values(user="users/eve"))
    trail.change("jobs/d")
    for _ in range(3):
        trail.seal()
    assert trail.differences() == [("record 2 of batch 2", "blob")]
    assert "record 2 (users/engineer: CancelJob) was changed in the database" in trail.sealer.trouble
    assert trail.verify().batches == 3


def test_where_both_copies_were_changed_neither_fits(trail: Trail) -> None:
    table = trail.units.tables.audit
    trail.execute(update(table).where(table.c.seq == 2).values(user="users/eve"))
    trail.flip(2, b"users/engineer", b"users/enginees")
    assert trail.differences() == [("batch 2", "neither")]


def test_a_changed_head_is_named_where_batch_and_records_agree(trail: Trail) -> None:
    table = trail.units.tables.audit_seals
    trail.execute(update(table).values(digest=f"3:blake3:{'0' * 64}"))
    assert trail.differences() == [("head of the chain", "both")]
    assert trail.restart().trouble
    trail.acknowledge()
    trail.change("jobs/d")
    assert (trail.restart().trouble, trail.verify().problems, trail.verify().batches) == ("", (), 4)


@pytest.mark.parametrize("harm", ["batch", "undecodable", "missing", "record", "removed"])
def test_after_a_difference_is_acknowledged_sealing_goes_on_and_another_change_is_found(
    trail: Trail, harm: str
) -> None:
    table = trail.units.tables.audit
    if harm == "batch":
        trail.flip(3, b"jobs/c", b"jobs/b")
    elif harm == "undecodable":
        trail.flip(3, b'"rows":[', b'"rows":{')
    elif harm == "missing":
        trail.blobs.delete(key_of("scheduler", 3))
    elif harm == "record":
        trail.execute(update(table).where(table.c.seq == 3).values(user="users/eve"))
    else:
        trail.execute(delete(table).where(table.c.seq == 3))
    trail.change("jobs/d")
    trail.seal()
    assert trail.sealer.trouble
    trail.acknowledge()
    trail.seal()
    found = trail.verify()
    assert (trail.sealer.trouble, found.problems, found.unsealed, found.acknowledged) == ("", (), 0, 1)
    recorded = trail.units.run(lambda unit: list(audit.newest(unit, 1)))[0]
    assert (recorded.user, recorded.action) == ("users/engineer", "tutti.audit.acknowledge")
    assert recorded.resource.startswith("audit/scheduler/")
    assert trail.restart().trouble == ""
    trail.execute(update(table).where(table.c.seq == 1).values(user="users/eve"))
    assert trail.differences() == [("record 1 of batch 1", "blob")]


def test_only_the_differences_that_were_looked_at_are_acknowledged(trail: Trail) -> None:
    trail.flip(3, b"jobs/c", b"jobs/b")
    digest = digest_of(trail.verify().differences)
    trail.flip(2, b"jobs/b", b"jobs/a")
    with pytest.raises(Refused) as refused:
        acknowledge(trail.units, trail.blobs, YEAR, ENGINEER, digest)
    assert refused.value.reason == "OTHER_DIFFERENCES"
    assert len(trail.verify().differences) == 2


def test_a_batch_that_was_written_before_its_process_ended_becomes_the_head(trail: Trail) -> None:
    table = trail.units.tables.audit_seals
    older = trail.units.run(lambda unit: unit.tx.execute(select(table.c.digest)).scalar_one())
    trail.change("jobs/d")
    trail.seal()
    trail.execute(update(table).values(digest=older))
    trail.change("jobs/e")
    assert (trail.restart().trouble, trail.verify().problems, trail.verify().batches) == ("", (), 5)


def test_the_chain_of_an_earlier_version_gets_a_head(trail: Trail) -> None:
    trail.execute(delete(trail.units.tables.audit_seals))
    trail.change("jobs/d")
    assert (trail.restart().trouble, trail.verify().problems, trail.verify().batches) == ("", (), 4)
    trail.flip(4, b"jobs/d", b"jobs/e")
    assert trail.differences() == [("batch 4", "database")]


@pytest.mark.parametrize("damage", ["user = CAST(x'c3ff' AS TEXT)", "at = 'never'"], ids=["text", "time"])
def test_a_record_that_cannot_be_read_is_named_and_the_others_are_compared(trail: Trail, damage: str) -> None:
    trail.execute(text(f"UPDATE audit SET {damage} WHERE seq = 3"))  # noqa: S608
    assert trail.differences() == [("record 3 of batch 3", "blob")]
    trail.change("jobs/d")
    assert trail.restart().trouble
