"""Archives: how they are taken while blobs come and go, what is refused, and a restore that is killed on its way."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData

from tutti.backbone import Blobs, SystemClock, SystemRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import Settings
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store import audit, stack
from tutti.chassis.store.auditseals import Sealer, Verdict, verify
from tutti.chassis.store.stack import ForeignStore
from tutti.chassis.store.tables import tables_of
from tutti.chassis.store.unit import Units
from tutti.upkeep.backup import databases
from tutti.upkeep.backup.archive import Archive, BackupError
from tutti.upkeep.backup.restoring import Target, check, restore
from tutti.upkeep.backup.taking import take

SERVICES = ("dedup", "scheduler")
EVENT = (
    "INSERT INTO outbox (id, type, topic, kind, subject, revision, made_at, headers, payload, sent_at) "
    "VALUES ('e1', 't', 'scheduler.jobs', 'state', 'jobs/a', 1, 5, '{}', x'00ff', 6)"
)


def quietly(done: int, total: int) -> None:
    pass


@pytest.fixture
def platform(tmp_path: Path) -> DataDir:
    """The stores of a platform with two services, which is down."""
    home = DataDir(tmp_path / "platform")
    known = databases.installed()
    for service in SERVICES:
        with closing(EmbeddedDatabase(home.path / "db" / f"{service}.db")) as database:
            database.create(MetaData(), known[service])
    with stack.opened(Settings(), home, SERVICES) as stores:
        stack.join(stores, SystemRandomness())
        for number in range(3):
            stores.blobs.put_if_absent(f"dedup/clusters/{number}", bytes([number]))
    with closing(sqlite3.connect(home.path / "db" / "scheduler.db")) as database:
        database.execute(EVENT)
        database.commit()
    return home


@pytest.fixture
def archive(platform: DataDir, tmp_path: Path) -> Archive:
    return taken(platform, tmp_path / "backup")


def taken(platform: DataDir, folder: Path, meanwhile: Callable[[Blobs], None] = lambda blobs: None) -> Archive:
    with closing(EmbeddedBlobs(platform.path / "blobs")) as blobs:

        def copy(to: Path) -> None:
            databases.copy_files(platform.path / "db")(to)
            meanwhile(blobs)

        take(blobs, copy, folder, quietly)
    return Archive(folder)


@contextmanager
def target(home: DataDir, wrap: Callable[[Blobs], Any] = lambda blobs: blobs) -> Iterator[Target]:
    with (
        closing(EmbeddedBlobs(home.path / "blobs")) as blobs,
        closing(EmbeddedEventLog(home.path / "log" / "events.db")) as log,
    ):
        yield Target(wrap(blobs), log, home.database_url, home.path / "db")


def audited(home: DataDir, resource: str) -> Verdict:
    """The audit trail of the scheduler after one more record, which is sealed."""
    metadata, principal = MetaData(), Principal.of_role(Role.ENGINEER)
    tables_of(metadata)
    with (
        closing(EmbeddedDatabase(home.path / "db" / "scheduler.db")) as database,
        closing(EmbeddedBlobs(home.path / "blobs")) as blobs,
    ):
        units = Units(database, "scheduler", metadata, clock=SystemClock(), randomness=SystemRandomness())
        units.run(lambda unit: audit.changed(unit, principal, "CancelJob", resource, 2))
        sealer = Sealer(units, blobs, timedelta(days=365))
        while sealer.step():
            pass
        return verify(units, blobs, timedelta(days=365))


def keys(folder: Path) -> set[str]:
    with closing(EmbeddedBlobs(folder)) as blobs:
        return {stat.key for stat in blobs.list("dedup/")}


def joined(home: DataDir) -> str:
    with stack.opened(Settings(), home, SERVICES) as stores:
        return stack.join(stores, SystemRandomness())


def rows(database: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def test_blobs_that_come_while_databases_are_copied_are_in_the_archive(platform: DataDir, tmp_path: Path) -> None:
    def meanwhile(blobs: Blobs) -> None:
        blobs.put_if_absent("dedup/clusters/late", b"named by a row that was copied")
        blobs.delete("dedup/clusters/0")

    archive = taken(platform, tmp_path / "backup", meanwhile)
    assert keys(archive.blobs) == {f"dedup/clusters/{name}" for name in ("0", "1", "2", "late")}


def test_an_audit_trail_that_is_sealed_while_databases_are_copied_holds_after_a_restore(
    platform: DataDir, tmp_path: Path
) -> None:
    def meanwhile(blobs: Blobs) -> None:
        audited(platform, "jobs/late")

    assert audited(platform, "jobs/a").batches == 1
    archive = taken(platform, tmp_path / "backup", meanwhile)
    home = DataDir(tmp_path / "restored")
    with target(home) as stores:
        restore(archive, stores, quietly)
    found = audited(home, "jobs/b")  # with the number in the trail that the late one had
    assert (found.batches, found.records, found.unsealed, found.problems) == (2, 2, 0, ())
    assert audited(platform, "jobs/c").batches == 3


def test_batches_that_are_sealed_just_before_databases_are_copied_are_in_the_archive(
    platform: DataDir, tmp_path: Path
) -> None:
    assert audited(platform, "jobs/a").batches == 1

    def copy(to: Path) -> None:
        audited(platform, "jobs/late")  # after the blobs were listed
        databases.copy_files(platform.path / "db")(to)

    with closing(EmbeddedBlobs(platform.path / "blobs")) as blobs:
        take(blobs, copy, tmp_path / "backup", quietly)
    home = DataDir(tmp_path / "restored")
    with target(home) as stores:
        restore(Archive(tmp_path / "backup"), stores, quietly)
    found = audited(home, "jobs/b")
    assert (found.batches, found.records, found.unsealed, found.problems) == (3, 3, 0, ())


def test_blobs_that_were_deleted_before_databases_were_copied_are_not(platform: DataDir, tmp_path: Path) -> None:
    with closing(EmbeddedBlobs(platform.path / "blobs")) as blobs:

        class Deleting:
            """The store of a platform that deletes a blob as soon as it was listed and copied."""

            def fetch(self, key: str, to: Path) -> None:
                blobs.fetch(key, to)
                blobs.delete("dedup/clusters/1")

            def __getattr__(self, name: str) -> Any:
                return getattr(blobs, name)

        take(Deleting(), databases.copy_files(platform.path / "db"), tmp_path / "backup", quietly)
    assert keys(tmp_path / "backup" / "blobs") == {"dedup/clusters/0", "dedup/clusters/2"}


def test_an_archive_that_was_not_completed_is_refused(platform: DataDir, tmp_path: Path) -> None:
    def killed(blobs: Blobs) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        taken(platform, tmp_path / "backup", killed)
    with pytest.raises(BackupError, match=r"is not a complete backup: it has no backup.json"):
        Archive(tmp_path / "backup").manifest()
    with pytest.raises(BackupError, match="is not empty, it has blobs: a backup goes into a new folder"):
        taken(platform, tmp_path / "backup")


def test_an_archive_belongs_to_its_owner_and_says_what_it_holds(archive: Archive, platform: DataDir) -> None:
    assert archive.folder.stat().st_mode & 0o077 == 0
    manifest = archive.manifest()
    assert set(manifest.rows) == set(SERVICES)
    assert (manifest.stack, manifest.blobs) == (joined(platform), 6)
    assert len(archive.checksums()) == manifest.blobs + len(SERVICES)


@pytest.mark.parametrize("file", ["db/scheduler.db", "blobs/dedup/clusters/1"])
@pytest.mark.parametrize("how", ["flipped", "removed"])
def test_a_damaged_archive_is_refused_before_anything_is_written(
    archive: Archive, tmp_path: Path, file: str, how: str
) -> None:
    path = archive.folder / file
    content = path.read_bytes()
    path.unlink()
    if how == "flipped":
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    home = DataDir(tmp_path / "restored")
    with target(home) as stores, pytest.raises(BackupError, match=rf"is damaged: {file} has digest .*nothing was"):
        restore(archive, stores, quietly)
    assert list((home.path / "db").iterdir()) == []
    assert keys(home.path / "blobs") == set()


def test_a_newer_format_is_refused(archive: Archive) -> None:
    path = archive.folder / "backup.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(BackupError, match="has format 2, this version knows up to 1: use Tutti "):
        archive.manifest()


def test_stores_that_are_not_empty_are_refused_by_name(archive: Archive, platform: DataDir) -> None:
    words = (
        r"the blob store has .* and the database has tables of dedup and the event log belongs to stack [0-9a-f]{32}"
    )
    with target(platform) as stores, pytest.raises(BackupError, match=words):
        check(archive, stores, quietly)


def test_a_restored_platform_has_rows_blobs_and_identity_and_sends_its_events_again(
    archive: Archive, platform: DataDir, tmp_path: Path
) -> None:
    home = DataDir(tmp_path / "restored")
    with target(home) as stores:
        restore(archive, stores, quietly)
    assert keys(home.path / "blobs") == keys(platform.path / "blobs")
    assert joined(home) == joined(platform)
    query = "SELECT id, payload, sent_at FROM outbox"
    assert rows(platform.path / "db" / "scheduler.db", query) == [("e1", b"\x00\xff", 6)]
    assert rows(home.path / "db" / "scheduler.db", query) == [("e1", b"\x00\xff", None)]


def test_a_restore_that_is_killed_anywhere_goes_on_and_no_service_starts_before_its_end(
    archive: Archive, platform: DataDir, tmp_path: Path
) -> None:
    for moment in range(100):
        home = DataDir(tmp_path / f"restored-{moment}")
        left = moment

        class Dying:
            """A store whose process dies after some calls that write."""

            def __init__(self, blobs: Blobs) -> None:
                self._blobs = blobs

            def put_if_absent(self, key: str, data: bytes | Path) -> None:
                self._die()
                self._blobs.put_if_absent(key, data)

            def delete(self, key: str) -> None:
                self._die()
                self._blobs.delete(key)

            def _die(self) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise InterruptedError

            def __getattr__(self, name: str) -> Any:
                return getattr(self._blobs, name)

        try:
            with target(home, Dying) as stores:
                restore(archive, stores, quietly)
        except InterruptedError:
            pass
        else:
            break
        if (home.path / "db" / "scheduler.db").exists() and not (home.path / "blobs" / stack.BLOB).exists():
            shutil.copytree(home.path, tmp_path / "half")
            with pytest.raises(ForeignStore, match=r"the blob store .*It was emptied"):
                joined(DataDir(tmp_path / "half"))
        with target(home) as stores:
            restore(archive, stores, quietly)
        assert keys(home.path / "blobs") == keys(platform.path / "blobs")
        assert joined(home) == joined(platform)
    assert moment == 8  # the mark, five blobs, the id, the end of the mark
    assert (tmp_path / "half").exists()


def test_another_archive_than_the_one_that_was_begun_is_refused(
    archive: Archive, platform: DataDir, tmp_path: Path
) -> None:
    home = DataDir(tmp_path / "restored")
    with target(home) as stores:
        stores.blobs.put_if_absent("stack/restoring/backup", b"another")
        with pytest.raises(BackupError, match="another backup was being restored here"):
            restore(archive, stores, quietly)
