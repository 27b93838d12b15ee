"""A backup that is brought back to empty stores.

Promises: nothing is written before every file of the archive was compared with its checksum and every store was seen to
be empty; a restore that was killed goes on when it is run again with the same archive; until it has ended no service
starts on its stores.

The id of the stack is written to the blob store last. A service that finds an id in a database and none in the blob
store takes the blob store for emptied, and does not start.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone import Blobs, EventLog
from tutti.backbone.blobs import BlobMissing
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.store import stack
from tutti.chassis.store.stack import BLOB
from tutti.upkeep.backup import databases
from tutti.upkeep.backup.archive import Archive, BackupError, Manifest

MARK = "stack/restoring/backup"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Target:
    """Empty stores. `folder` has the SQLite files where `database` is no server's URL."""

    blobs: Blobs
    log: EventLog
    database: str
    folder: Path


def check(archive: Archive, target: Target, progress: Progress) -> Manifest:
    """Change nothing. Raises BackupError, and the errors of the stores."""
    manifest = archive.manifest()
    _require_empty(archive, target)
    archive.verify(progress)
    return manifest


def restore(archive: Archive, target: Target, progress: Progress) -> Manifest:
    """Fill the stores. Raises BackupError, and the errors of the stores."""
    manifest = check(archive, target, progress)
    if not _marked(archive, target):
        target.blobs.put_if_absent(MARK, _name(archive))
    done = 0
    with _blobs(archive) as source:
        for stat in source.list(""):
            if stat.key != BLOB:
                target.blobs.put_if_absent(stat.key, archive.blobs / stat.key)
            done += stat.size
            progress(done, manifest.bytes)
    databases.fill(target.database, target.folder, {service: archive.database(service) for service in manifest.rows})
    if not stack.in_log(target.log):
        stack.into_log(target.log, manifest.stack)
    target.blobs.put_if_absent(BLOB, f"{manifest.stack}\n".encode())
    target.blobs.delete(MARK)
    return manifest


def _require_empty(archive: Archive, target: Target) -> None:
    if _marked(archive, target):
        return
    seen = []
    if found := next(iter(target.blobs.list("")), None):
        seen.append(f"the blob store has {found.key}")
    if services := databases.held(target.database, target.folder):
        seen.append(f"the database has tables of {services[0]}")
    if identity := stack.in_log(target.log):
        seen.append(f"the event log belongs to stack {identity}")
    if seen:
        raise BackupError(
            f"{' and '.join(seen)}: a backup is restored to empty stores; name new ones, or remove what they have"
        )


def _marked(archive: Archive, target: Target) -> bool:
    """True if a restore of this archive began and did not end. Raises BackupError for another archive's."""
    try:
        mark = target.blobs.get(MARK)
    except BlobMissing:
        return False
    if mark != _name(archive):
        raise BackupError("another backup was being restored here: restore that one, or empty the stores")
    return True


def _name(archive: Archive) -> bytes:
    return archive.manifest().text().encode()


@contextmanager
def _blobs(archive: Archive) -> Iterator[Blobs]:
    with closing(EmbeddedBlobs(archive.blobs)) as blobs:
        yield blobs
