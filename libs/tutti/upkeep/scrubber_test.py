"""The scrubber: real flipped bytes, in time, at a rate, by one copy, and on after a kill."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.config.sections import ScrubSettings
from tutti.chassis.delivery import outbox
from tutti.chassis.demo_test import Demo, eventually, running
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.work import put_named
from tutti.client import Client, connect
from tutti.contracts.admin.v1 import DoctorRequest, DoctorResponse, GetScrubRequest, Scrub, StartScrubRequest
from tutti.platform.host_test import process
from tutti.upkeep import scrubs
from tutti.upkeep.scrubber import DAY, Scrubber

KIBI = 1 << 10
ANYTHING = "ingest/anything"


def stored(folder: Path, *contents: bytes) -> list[Path]:
    """The files of blobs that the service ingest wrote, in the order of their keys."""
    with closing(EmbeddedBlobs(folder / "blobs")) as blobs:
        return sorted(folder / "blobs" / put_named(blobs, ANYTHING, each, ".bin") for each in contents)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def flip_row(database: Path, table: str, column: str, where: str) -> None:
    """Flip a byte in one row of a file that nobody has open."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        ((row, content),) = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {where}").fetchall()  # noqa: S608
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (flipped, row))  # noqa: S608


def scrubbed(client: Client, rate: int = 0) -> Scrub:
    """What comes of a scrub that is asked for now."""
    asked_at = client.admin.StartScrub(StartScrubRequest(service="ingest", bytes_per_second=rate)).asked_at

    def ended() -> Scrub | None:
        last = client.admin.GetScrub(GetScrubRequest(service="ingest")).last
        return last if last.ended_at.ToNanoseconds() >= asked_at.ToNanoseconds() else None

    return eventually(ended)


def doctor(client: Client) -> DoctorResponse.Finding:
    findings = client.admin.Doctor(DoctorRequest(service="ingest")).findings
    return next(each for each in findings if each.check == "scrub")


def published(demo: Demo) -> None:
    eventually(lambda: demo.host.services[0].host.units.run(outbox.count_unsent) == 0)


def test_flipped_bytes_of_a_blob_a_row_and_a_record_are_found_and_the_doctor_remembers_them(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        published(demo)
    (blob,) = stored(tmp_path, b"content")
    flip(blob)
    flip_row(tmp_path / "db" / "ingest.db", "ingests", "body", "name = 'ingests/a'")
    flip_row(tmp_path / "log" / "events.db", "records", "value", "key = 'ingests/a'")
    with running(tmp_path) as demo, connect(tmp_path) as client:
        assert doctor(client).message.startswith("nothing was read back yet; the first scrub begins at ")
        found = scrubbed(client)
        assert (found.rows, found.records, found.blobs, len(found.damaged)) == (1, 1, 1, 2)
        row, file = found.damaged
        assert "the row 'ingests/a' of the table ingests is damaged" in row
        assert file.startswith(f"{blob.relative_to(tmp_path / 'blobs')}: its bytes have digest ")
        assert file.endswith("so that the one before it is used")
        (record,) = found.repaired
        assert "about ingests/a: it does not have the digest in its header; its event is published again" in record
        assert (doctor(client).ok, "2 are damaged, 1 were repaired" in doctor(client).message) == (False, True)
        published(demo)
    with running(tmp_path), connect(tmp_path) as client:
        assert not doctor(client).ok
        blob.write_bytes(b"content")
        found = scrubbed(client)
        assert ([row], []) == (list(found.damaged), list(found.repaired))


def test_a_killed_scrub_goes_on_behind_what_it_had_read(tmp_path: Path) -> None:
    files = stored(tmp_path, *(bytes([number]) * 64 * KIBI for number in range(24)))
    with process(tmp_path) as child, connect(tmp_path) as client:
        client.admin.StartScrub(StartScrubRequest(service="ingest", bytes_per_second=512 * KIBI))

        def begun() -> Scrub | None:
            found = client.admin.GetScrub(GetScrubRequest(service="ingest")).running
            return found if found.blobs >= 4 else None

        before = eventually(begun)
        child.kill()
        child.wait(60)
    flip(files[0])  # it was read already
    flip(files[-1])
    with running(tmp_path), connect(tmp_path) as client:
        after = scrubbed(client)
    assert (after.began_at, after.blobs, after.bytes) == (before.began_at, 24, 24 * 64 * KIBI)
    assert [each.partition(":")[0] for each in after.damaged] == [f"{ANYTHING}/{files[-1].name}"]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A host whose own scrubber has looked, and looks again after the test."""
    with running(tmp_path, "scrub.every_days=0") as made:
        units = made.host.services[0].host.units
        eventually(lambda: units.run(lambda unit: unit.tx.execute(select(unit.tables.scrubs)).first()))
        yield made


def copy_of(demo: Demo, name: str, *, ttl: float = 15.0, rate: float = 20.0) -> Scrubber:
    """The scrubber of another copy of the service; `rate` in MiB a second."""
    settings = ScrubSettings(every_days=7, mebibytes_per_second=rate)
    return Scrubber(demo.host.services, demo.host._log, settings, holder=name, ttl=ttl)


def kept(demo: Demo) -> scrubs.Kept:
    return demo.host.services[0].host.units.run(scrubs.read)


def age(demo: Demo, days: float) -> None:
    """Let the row be so much older."""
    seen = kept(demo)

    def write(unit: Unit) -> None:
        unit.tx.execute(update(unit.tables.scrubs).values(since=seen.since - int(days * DAY)))

    demo.host.services[0].host.units.run(write)


def test_a_scrub_begins_when_the_interval_is_over_and_by_one_copy(demo: Demo, tmp_path: Path) -> None:
    stored(tmp_path, b"content")
    first, second = (copy_of(demo, name) for name in ("a", "b"))
    age(demo, 6.9)
    assert (first.step(), kept(demo).running) == (False, None)
    age(demo, 0.2)
    assert first.step()
    assert kept(demo).running is not None
    assert not second.step()
    while first.step():
        pass
    last = kept(demo).last
    assert last is not None
    assert (last.blobs, last.damages, kept(demo).running) == (1, 0, None)
    assert not second.step()
    assert kept(demo).last == last


def test_another_copy_goes_on_with_the_scrub_of_one_that_ended(demo: Demo, tmp_path: Path) -> None:
    stored(tmp_path, b"content")
    first, second = (copy_of(demo, name) for name in ("a", "b"))
    age(demo, 8)
    assert first.step()
    begun = kept(demo).running
    assert begun is not None
    first.close()
    while second.step():
        pass
    last = kept(demo).last
    assert last is not None
    assert (last.began_at, last.blobs) == (begun.began_at, 1)
    assert not first.step()  # its lease is gone


def test_no_more_is_read_than_the_rate_allows(demo: Demo, tmp_path: Path) -> None:
    stored(tmp_path, bytes(8 << 20))
    scrubber = copy_of(demo, "a", ttl=3600.0, rate=0.01)
    age(demo, 8)
    while scrubber.step():
        pass
    found = kept(demo).running
    assert found is not None
    assert (found.phase, found.blobs) == ("blobs", 0)
    assert 300 < scrubber.interval < 401  # for the first 4 MiB
    assert not scrubber.step()
    scrubber.wake()
    demo.host.services[0].host.units.run(lambda unit: scrubs.ask(unit, 0))
    while scrubber.step():
        pass
    last = kept(demo).last
    assert last is not None
    assert (last.blobs, last.bytes) == (1, 8 << 20)
