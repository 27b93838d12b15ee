"""A backup that is taken while the platform works.

Promises: all databases are copied at one moment; every blob that their rows name is in the archive; nothing of the
platform is changed; an archive that was not completed has no manifest.

Blobs are written before the rows that name them, and never change. So they are copied twice: most of them before the
databases, and those that were written during the copy after them. A blob that was deleted before the databases were
copied is deleted from the archive too. Of an audit trail, the archive has the batches up to the head in the copy of the
database. Later ones have records that the copies lack, and after a restore other records get their numbers. The event
log is not copied: each outbox keeps the newest snapshot of each resource and every fact for as long as the log would.
They wait unsent in the archive, and a restored platform publishes them under the same ids, which inboxes know.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing, Stat
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles, publish
from tutti.backbone.owned import AUDIT
from tutti.chassis.store import auditseals, stack
from tutti.chassis.version import VERSION
from tutti.upkeep.backup.archive import CHECKSUMS, FORMAT, MANIFEST, Archive, BackupError, Manifest, digest_of

COPIERS = 8
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Taken:
    """`seconds` is how long copying the databases took; `late_blobs` were written during the copy."""

    manifest: Manifest
    seconds: float
    late_blobs: int


@dataclass
class _Copies:
    """The blobs of the archive so far, with their digests, by key."""

    store: Blobs
    archive: Archive
    digests: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, stats: list[Stat], progress: Progress) -> int:
        """Copy what is missing; the number of blobs."""
        missing = [stat for stat in stats if self.sizes.get(stat.key) != stat.size]
        total, done = sum(stat.size for stat in missing), 0
        with ThreadPoolExecutor(COPIERS) as pool:
            for stat, digest in zip(missing, pool.map(self._copy, missing), strict=True):
                if digest:
                    self.digests[stat.key], self.sizes[stat.key] = digest, stat.size
                done += stat.size
                progress(done, total)
        return len(missing)

    def keep(self, stats: list[Stat]) -> None:
        """Delete what the store has no more."""
        held = {stat.key for stat in stats}
        for key in [key for key in self.digests if key not in held]:
            (self.archive.blobs / key).unlink()
            del self.digests[key], self.sizes[key]

    def _copy(self, stat: Stat) -> str:
        path = self.archive.blobs / stat.key
        try:
            self.store.fetch(stat.key, path)
        except BlobMissing:
            return ""  # deleted since it was listed
        return digest_of(path)


def take(blobs: Blobs, copy_databases: Callable[[Path], None], folder: Path, progress: Progress) -> Taken:
    """Write an archive to an empty or new folder. `copy_databases` writes SERVICE.db for each service to its argument.

    Raises BackupError, and the errors of the stores.
    """
    archive = begin(folder)
    copies = _Copies(blobs, archive)
    copies.add(list(blobs.list("")), progress)
    before = list(blobs.list(""))
    copies.keep(before)
    sealed = {stat.key for stat in before if stat.key.startswith(AUDIT)}
    began = time.monotonic()
    copy_databases(archive.databases)
    seconds = time.monotonic() - began
    heads = {file.stem: auditseals.head_in(file) for file in archive.databases.iterdir()}
    after = [stat for stat in blobs.list("") if stat.key in sealed or not _is_later(stat.key, heads)]
    late = copies.add(after, progress)
    rows, identity = {}, ""
    for file in sorted(archive.databases.iterdir()):
        rows[file.stem], identity = _prepare(file), identity or _identity(file)
    RealFiles().fsync_folder(archive.databases)
    if not identity:
        raise BackupError("no database has the id of a stack: start the platform once, then take the backup")
    digests = {f"db/{name}.db": digest_of(archive.database(name)) for name in rows}
    digests |= {f"blobs/{key}": digest for key, digest in copies.digests.items()}
    _publish(archive, CHECKSUMS, "".join(f"{digest}  {path}\n" for path, digest in sorted(digests.items())))
    at = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(FORMAT, VERSION, identity, at, rows, len(copies.digests), sum(copies.sizes.values()))
    _publish(archive, MANIFEST, manifest.text())
    return Taken(manifest, seconds, late)


def _is_later(key: str, heads: Mapping[str, int]) -> bool:
    """True for a batch of an audit trail behind the head in the copy of its database."""
    if not key.startswith(AUDIT):
        return False
    _, service, number = key.split("/")
    return int(number) > heads.get(service, 0)


def begin(folder: Path) -> Archive:
    """Make the folders of an archive, for its owner alone. Raises BackupError unless there is nothing yet."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if seen := sorted(path.name for path in folder.iterdir()):
            raise BackupError(f"{folder} is not empty, it has {seen[0]}: a backup goes into a new folder")
        folder.chmod(0o700)
        archive = Archive(folder)
        archive.databases.mkdir()
        EmbeddedBlobs(archive.blobs).close()
    except OSError as error:
        raise BackupError(f"cannot write to {folder}: {error.strerror}") from None
    return archive


def _prepare(file: Path) -> int:
    """Let every kept event wait for the relay, and make the file durable; the number of rows."""
    try:
        with RealFiles().append(file) as handle:
            handle.fsync()
        with closing(sqlite3.connect(file, isolation_level=None)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise BackupError(f"the copy of the database {file.stem} is damaged: {verdict}")
            database.execute("PRAGMA journal_mode = DELETE")
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if "outbox" in tables:
                database.execute("UPDATE outbox SET sent_at = NULL")
            counts = (database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables)  # noqa: S608
            return int(sum(counts))
    except sqlite3.Error as error:
        raise BackupError(f"the copy of the database {file.stem} cannot be read: {error}") from None


def _identity(file: Path) -> str:
    with closing(sqlite3.connect(file)) as database:
        try:
            found = database.execute(f"SELECT id FROM {stack.TABLE}").fetchone()  # noqa: S608
        except sqlite3.Error:
            return ""
    return str(found[0]) if found else ""


def _publish(archive: Archive, name: str, text: str) -> None:
    publish(RealFiles(), archive.folder / f".{name}.{os.getpid()}", archive.folder / name, [text.encode()])
